// The style, the script and the chart library of the page. The build embeds them (scripts/embed.cmake).
#pragma once

#include <string_view>

namespace zf {

extern const std::string_view kChartJs;  ///< Chart.js, minified, with its licence notice
extern const std::string_view kPageCss;
extern const std::string_view kPageJs;

}  // namespace zf
