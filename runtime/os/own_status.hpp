// Reads what the kernel says of this process in /proc/self/status.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "os/sysroot.hpp"

namespace zf {

inline constexpr const char* kStatusFile = "/proc/self/status";

/// Returns the value of a line such as "Cpus_allowed_list:\t0-3"; nothing if there is no such line.
std::optional<std::string> status_field(const SysRoot& sysroot, std::string_view name);

}  // namespace zf
