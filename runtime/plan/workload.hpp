// The workload: the figures by which both sides of a split are measured.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/clock.hpp"

namespace zf {

/// The work that one training step of one rank does on the host, beside its GPU. configs/workloads/README.md
/// says where such figures come from.
struct TrainingDemand {
  std::uint64_t launches = 0;    ///< number of GPU kernels, launched one after the other
  Nanoseconds launch_ns = 0;     ///< CPU time of one launch
  std::uint64_t host_bytes = 0;  ///< moved by work on all training cores (accumulate, unscale, clip, cast)
  std::uint64_t copy_bytes = 0;  ///< moved between GPU and host, both directions together
  std::uint64_t copy_bytes_per_s = 0;  ///< rate of these copies; at least 1 if copy_bytes is not 0
  Nanoseconds gpu_ns = 0;              ///< compute time of the GPU if it never waits for a launch
  bool operator==(const TrainingDemand&) const = default;
};

struct Workload {
  std::string name;
  std::uint64_t params = 0;  ///< fp32 master parameters per node, over all ranks
  int ranks = 1;
  int update_interval = 1;                      ///< training steps that one optimizer step hides behind
  std::optional<TrainingDemand> training = {};  ///< absent: only the optimizer was measured
  bool operator==(const Workload&) const = default;
};

}  // namespace zf
