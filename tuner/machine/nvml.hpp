// Which GPU a UUID belongs to, asked of NVIDIA's management library where there is one.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "machine/topology.hpp"
#include "os/environment.hpp"

namespace zf {

/// A driver that is not loaded yet takes seconds to answer, on a node of eight GPUs up to about ten.
constexpr std::chrono::milliseconds kNvmlDeadline{15'000};
constexpr const char* kNvmlLibrary = "libnvidia-ml.so.1";

/// The UUIDs that visible_devices names and that no Gpu::uuid begins with: those of MIG instances
/// ("MIG-5c89852c-…"), and of GPUs where /proc/driver/nvidia is not shown.
std::vector<std::string> unresolved_uuids(const Environment& environment, const std::vector<Gpu>& gpus);

/// Adds each of `uuids` that NVML knows to Gpu::aliases of the GPU that it is of; the others stay unknown, as
/// do all without NVML. NVML runs in a child, see output_of_child(): it may hang in a broken driver. Nothing
/// is asked where `uuids` or `gpus` is empty. Does not throw for anything that NVML does.
void name_by_nvml(const std::vector<std::string>& uuids, std::vector<Gpu>& gpus,
                  std::chrono::milliseconds deadline = kNvmlDeadline,
                  const std::string& library = kNvmlLibrary);

}  // namespace zf
