// Asks NVIDIA's management library (NVML), if it is installed, which GPU a UUID belongs to.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "os/environment.hpp"
#include "topology/topology.hpp"

namespace zf {

/// A driver that is not loaded yet takes seconds to answer: up to about ten on a node of eight GPUs.
constexpr std::chrono::milliseconds kNvmlDeadline{15'000};
constexpr const char* kNvmlLibrary = "libnvidia-ml.so.1";

/// Returns the UUIDs that visible_devices() or container_gpus() names and that begin no Gpu::uuid: UUIDs of
/// MIG instances ("MIG-5c89852c-…"), and of GPUs if /proc/driver/nvidia is not shown.
std::vector<std::string> unresolved_uuids(const Environment& environment, const std::vector<Gpu>& gpus);

/// Adds each of `uuids` that NVML knows to Gpu::aliases of its GPU. The others stay unknown; without NVML all
/// do. NVML runs in a child process (see output_of_child()), because it may hang in a broken driver. Asks
/// nothing if `uuids` or `gpus` is empty. Does not throw, whatever NVML does.
void add_nvml_aliases(const std::vector<std::string>& uuids, std::vector<Gpu>& gpus,
                      std::chrono::milliseconds deadline = kNvmlDeadline,
                      const std::string& library = kNvmlLibrary);

}  // namespace zf
