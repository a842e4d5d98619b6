// The name of this host.
#pragma once

#include <string>

namespace zf {

/// Returns the host's name as the kernel has it; "unknown" if it cannot be read.
std::string host_name();

}  // namespace zf
