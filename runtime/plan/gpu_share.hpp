// How many GPUs a rank has, or how many ranks have one GPU.
#pragma once

#include <algorithm>

namespace zf {

/// What the user said of it; 0: nothing. At most one of the two is given.
struct GpuShare {
  int gpus_per_rank = 0;  ///< rank i has the GPUs from i * gpus_per_rank on
  int ranks_per_gpu = 0;  ///< rank i has the GPU i / ranks_per_gpu

  bool is_given() const { return gpus_per_rank != 0 || ranks_per_gpu != 0; }
  /// Returns how many GPUs each rank has, at least 1.
  int gpus_of_rank() const { return std::max(1, gpus_per_rank); }
  /// Returns how many ranks each GPU has, at least 1.
  int ranks_on_gpu() const { return std::max(1, ranks_per_gpu); }
  bool operator==(const GpuShare&) const = default;
};

}  // namespace zf
