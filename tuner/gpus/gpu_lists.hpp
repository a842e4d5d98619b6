// The lists by which launchers, containers and users choose GPUs. visible_devices() reads those of CUDA and
// ROCm. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "os/environment.hpp"
#include "topology/topology.hpp"

namespace zf {

/// Returns the variables of this job; none if they do not describe the machine.
Environment variables_for(const Environment& environment, const Topology& topology);

/// Returns the step's GPUs. SLURM_STEP_GPUS names them by their numbers on the node: N of /dev/nvidiaN, which
/// is not always PCI order (the two differ on A100 systems). In a batch script SLURM_JOB_GPUS does the same.
std::optional<VisibleDevices> slurm_gpus(const Environment& environment);

/// Returns the list of NVIDIA_VISIBLE_DEVICES, which NVIDIA's container runtime was told, if it has UUIDs
/// alone. Returns nothing if the variable is not set, if it has a word for all or for no GPUs ("all", "none",
/// "void"), or numbers: inside the container it is not known what they count.
std::optional<VisibleDevices> container_gpus(const Environment& environment);

/// Makes NVIDIA's GPUs unusable that container_gpus() does not name. Returns an empty string on success, and
/// if there is no such list. If one of its UUIDs is no GPU's (Gpu::uuid, Gpu::aliases), leaves `gpus` as they
/// are and returns a sentence that says so.
std::string keep_container_gpus(const Environment& environment, std::vector<Gpu>& gpus);

/// Returns the variable that is set and selects among the GPUs of this vendor by numbers that are not read
/// here: ZE_AFFINITY_MASK (Intel), HABANA_VISIBLE_DEVICES, or ASCEND_RT_VISIBLE_DEVICES (Huawei). Returns
/// nothing for other vendors, and if it is empty or a word for all or for none.
std::optional<std::string> unread_list(const Environment& environment, int vendor_id);

/// Returns that list, to be counted, if all these usable GPUs are of the vendor, and if each of its entries
/// is one device ("3", or "0.1" for a tile). Otherwise returns nothing.
std::optional<VisibleDevices> countable_list(const Environment& environment, const std::vector<Gpu>& usable);

/// Returns the UUID, or the beginning of one, by which a variable names a GPU: that of "GPU-8932f937-…", and
/// that in the older names of MIG instances, "MIG-GPU-8932f937-…/1/0". Returns nothing for other names.
std::optional<std::string> uuid_in_name(const std::string& id);

/// Returns true if a UUID begins with `start`. Capitals and small letters are the same.
bool begins_uuid(const std::string& start, const std::string& uuid);

}  // namespace zf
