// The style of the page. The build embeds it (scripts/embed.cmake).
#pragma once

#include <string_view>

namespace zf {

extern const std::string_view kPageCss;

}  // namespace zf
