// The GPUs that NVIDIA's container runtime was told to give to this container. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "os/environment.hpp"
#include "topology/topology.hpp"

namespace zf {

/// Returns the list of NVIDIA_VISIBLE_DEVICES if it has UUIDs alone. Returns nothing if the variable is not
/// set, if it has a word for all or for no GPUs ("all", "none", "void"), or numbers: inside the container
/// nobody knows what they count.
std::optional<VisibleDevices> container_gpus(const Environment& environment);

/// Makes NVIDIA's GPUs unusable that container_gpus() does not name. Returns an empty string on success, and
/// if there is no such list. If one of its UUIDs is no GPU's (Gpu::uuid, Gpu::aliases), leaves `gpus` as they
/// are and returns a sentence that says so.
std::string keep_container_gpus(const Environment& environment, std::vector<Gpu>& gpus);

}  // namespace zf
