// How much memory a measurement may take without hurting anyone.
#pragma once

#include <cstdint>

#include "os/allowed.hpp"
#include "os/sysroot.hpp"

namespace zf {

/// MemAvailable of /proc/meminfo, or the cgroup's memory limit, whichever is smaller.
/// Bytes. Throws Error(runtime_error) when /proc/meminfo cannot be read.
std::uint64_t available_memory_bytes(const SysRoot& sysroot, const Allowed& allowed);

}  // namespace zf
