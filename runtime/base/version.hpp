#pragma once

#include <string_view>

namespace zf {

/// Returns the version of the whole project, "major.minor.patch".
std::string_view version();

}  // namespace zf
