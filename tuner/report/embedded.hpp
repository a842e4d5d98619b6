// The page's style, its script and the chart library, as the build put them into this program
// (scripts/embed.cmake).
#pragma once

#include <string_view>

namespace zf {

extern const std::string_view kChartJs;  ///< Chart.js, minified, its licence notice in front
extern const std::string_view kPageCss;
extern const std::string_view kPageJs;

}  // namespace zf
