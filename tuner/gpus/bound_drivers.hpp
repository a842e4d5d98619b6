// Leaves out what looks like a GPU, but is bound to a driver that no GPU of a job has.
#pragma once

#include <chrono>
#include <string>

#include "os/sysroot.hpp"
#include "topology/topology.hpp"

namespace zf {

/// Moves each GPU whose driver why_no_gpu_with() rules out from Topology::gpus to Topology::left_out. The
/// driver is that of /sys/bus/pci/devices/ADDRESS/uevent; a folder without that file (an older capture) rules
/// out nothing.
///
/// Reading waits for a driver that is being bound, so a child process reads (see output_of_child()). Returns
/// an empty string on success, and if there are no GPUs. Otherwise leaves `topology` as it is and returns a
/// sentence that says what is missing.
std::string leave_out_by_driver(const SysRoot& sysroot, Topology& topology,
                                std::chrono::milliseconds deadline);

}  // namespace zf
