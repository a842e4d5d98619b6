// Which GPUs a job sees, and which of them a launcher's variable means. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "os/environment.hpp"
#include "plan/gpu_share.hpp"
#include "topology/topology.hpp"

namespace zf {

/// A GPU; or the reason why it is unknown; or neither: there is no GPU to name.
using FoundGpu = std::variant<std::monostate, Gpu, std::string>;

/// Returns the GPU; null if it is not known.
inline const Gpu* gpu_in(const FoundGpu& one) { return std::get_if<Gpu>(&one); }

/// Returns true if both are the same GPU, or both are unknown.
bool are_same(const FoundGpu& a, const FoundGpu& b);

/// Returns the GPUs that a job here can use, those of NVIDIA with CUDA's numbers (Gpu::cuda_number).
std::vector<Gpu> usable_gpus(const Topology& topology);

/// Returns who counts the GPUs of this machine: HIP if all are AMD's.
GpuRuntime runtime_of(const Topology& topology);

/// The devices that the ranks of a job take in turn: those of a list, or all that may be used. Keeps copies
/// of all that it is made from. rank_gpus() says which list counts, and what its names mean.
///
/// A device is a GPU, or one part of it if GPUs are divided alike (Gpu::parts), the order of their parts is
/// known, and `share` says how many ranks a GPU has: as many for each part.
class GpuLookup {
 public:
  GpuLookup(const Environment& variables, const Topology& topology, GpuShare share = {});

  /// Returns the list; null if there is none.
  const VisibleDevices* list() const { return visible_ ? &*visible_ : slurm_ ? &*slurm_ : nullptr; }
  bool is_visible_list() const { return visible_.has_value(); }
  /// Returns true if the list has numbers, which under Slurm may count the step's GPUs, or those of this
  /// task.
  bool is_doubtful_of_task() const;
  std::size_t count() const { return list() != nullptr ? list()->ids.size() : usable(); }
  /// Returns how many ranks have one device.
  std::size_t ranks_on_one() const { return ranks_on_one_; }
  /// Returns how many devices are needed for this many GPUs of ranks.
  std::size_t needed(std::size_t places) const { return (places + ranks_on_one_ - 1) / ranks_on_one_; }
  FoundGpu at(std::size_t i) const;
  /// Returns the i-th of slurm_gpus().
  const FoundGpu& of_step(std::size_t i) const { return step_[i]; }
  /// Says that there are fewer devices than ranks, and what to tell then.
  std::string too_few(std::size_t ranks, GpuShare share) const;

 private:
  /// Returns how many devices there are without a list.
  std::size_t usable() const { return gpus_.size() * parts_; }
  bool all_numbered() const;
  /// Returns the GPU that `variable` names `id`: a number or a UUID.
  FoundGpu find(const std::string& id, const std::string& variable) const;
  /// Returns the GPU of the i-th device as frameworks count without a list: by their own numbers if all have
  /// one, else in PCI order. If divided_gpu() says so, returns that as the reason. Precondition: i <
  /// usable().
  FoundGpu in_framework_order(std::size_t i) const;
  /// Returns a sentence about the first GPU that ROCm sees in parts; nothing if there is none, or if parts
  /// are devices.
  std::optional<std::string> divided_gpu() const;
  /// Returns the step's GPUs in PCI order. The job sees them in that order, whatever their minor numbers are.
  std::vector<FoundGpu> step_gpus() const;
  FoundGpu in_pci_order(std::size_t number, const std::string& what) const;
  FoundGpu by_number(std::size_t number, const std::string& variable, const std::string& what) const;
  /// Returns the GPU that CUDA or ROCm knows by this number: ROCm's own order may differ from that of PCI.
  /// HIP obeys CUDA_VISIBLE_DEVICES too.
  FoundGpu in_driver_order(std::size_t number, const std::string& what) const;
  /// Returns the GPU of this number if it is the same in the driver's order and in that of PCI.
  FoundGpu in_one_order(std::size_t number, const std::string& what) const;
  FoundGpu by_minor(std::size_t number, const std::string& what) const;
  /// Returns the GPU with a UUID that begins with `uuid`. As for CUDA, any beginning will do that only one
  /// GPU's UUID has.
  FoundGpu by_uuid(const std::string& uuid, const std::string& what) const;

  std::vector<Gpu> gpus_;
  std::optional<VisibleDevices> visible_, slurm_;
  std::vector<FoundGpu> step_;  // by place in the step, in PCI order
  bool by_minor_ = false;       // false: no minors are known, and Slurm's numbers are taken for PCI order
  bool by_speed_ = false;
  std::size_t parts_ = 1;  // devices of each GPU
  std::size_t ranks_on_one_ = 1;
};

}  // namespace zf
