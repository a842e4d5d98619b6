#pragma once

#include <string_view>

namespace zf {

/// The version of the whole project, "major.minor.patch".
std::string_view version();

}  // namespace zf
