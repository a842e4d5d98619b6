// Which GPU a launcher's variable means. Pure.
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

/// A GPU, or the reason why it is unknown.
using GpuOrReason = std::variant<Gpu, std::string>;

/// Returns the GPUs that a job here can use, those of NVIDIA with CUDA's numbers (Gpu::cuda_number).
std::vector<Gpu> usable_gpus(const Topology& topology);

/// Returns who counts the GPUs of this machine: HIP if all are AMD's.
GpuRuntime runtime_of(const Topology& topology);

/// Finds a GPU by the name that a variable gives it. Keeps copies of all that it is made from.
///
/// Frameworks count devices. A device is a GPU, or one part of it if GPUs are divided alike (Gpu::parts), the
/// order of their parts is known, and `share` says how many ranks a GPU has: as many for each part.
class GpuLookup {
 public:
  GpuLookup(const Environment& environment, const Topology& topology, GpuShare share = {});

  /// Returns how many devices may be used.
  std::size_t count() const { return gpus_.size() * parts_; }
  /// Returns how many ranks have one device.
  std::size_t ranks_on_device() const { return ranks_on_device_; }
  /// Returns the GPU that `variable` names `id`: a number or a UUID. rank_gpus() says what counts.
  GpuOrReason find(const std::string& id, const std::string& variable) const;
  /// Returns the i-th of slurm_gpus().
  const GpuOrReason& of_step(std::size_t i) const { return step_[i]; }
  /// Returns the GPU of the i-th device as frameworks count without a list: by their own numbers if all have
  /// one, else in PCI order. If divided_gpu() says so, returns that as the reason. Precondition: i < count().
  GpuOrReason in_framework_order(std::size_t i) const;
  /// Returns a sentence about the first GPU that ROCm sees in parts; nothing if there is none, or if parts
  /// are devices.
  std::optional<std::string> divided_gpu() const;

 private:
  bool all_numbered() const;
  /// Returns the step's GPUs in PCI order. The job sees them in that order, whatever their minor numbers are.
  std::vector<GpuOrReason> step_gpus() const;
  GpuOrReason in_pci_order(std::size_t number, const std::string& what) const;
  GpuOrReason by_number(std::size_t number, const std::string& variable, const std::string& what) const;
  /// Returns the GPU that CUDA or ROCm knows by this number: ROCm's own order may differ from that of PCI.
  /// HIP obeys CUDA_VISIBLE_DEVICES too.
  GpuOrReason in_driver_order(std::size_t number, const std::string& what) const;
  /// Returns the GPU of this number if it is the same in the driver's order and in that of PCI.
  GpuOrReason in_one_order(std::size_t number, const std::string& what) const;
  GpuOrReason by_minor(std::size_t number, const std::string& what) const;
  /// Returns true if both are the same GPU, or both are unknown.
  static bool same(const GpuOrReason& a, const GpuOrReason& b);
  std::optional<Gpu> by_alias(const std::string& id) const;
  /// Returns the GPU with a UUID that begins with `uuid`. As for CUDA, any beginning will do that only one
  /// GPU's UUID has.
  GpuOrReason by_uuid(const std::string& uuid, const std::string& what) const;

  std::vector<Gpu> gpus_;
  std::optional<VisibleDevices> slurm_;
  std::vector<GpuOrReason> step_;  // by place in the step, in PCI order
  bool by_minor_ = false;          // false: no minors are known, and Slurm's numbers are taken for PCI order
  bool by_speed_ = false;
  std::size_t parts_ = 1;  // devices of each GPU
  std::size_t ranks_on_device_ = 1;
};

}  // namespace zf
