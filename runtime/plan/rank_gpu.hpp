// The GPU of a rank.
#pragma once

#include <optional>
#include <string>

#include "base/id_set.hpp"

namespace zf {

/// The GPU that a rank computes on.
struct RankGpu {
  std::string pci_address;        ///< "0000:3b:00.0"
  std::optional<Node> node = {};  ///< its NUMA node; absent: not one node, or not known
  CpuSet cpus = {};               ///< the CPUs near it; empty: not known
  std::optional<int> minor = {};  ///< 0 for /dev/nvidia0; absent: not known
  std::string uuid = {};          ///< "GPU-8932f937-…"; empty: not known
  /// CUDA's number of it where CUDA counts in PCI order (CUDA_DEVICE_ORDER=PCI_BUS_ID); absent: not known
  std::optional<int> cuda_number = {};
  bool operator==(const RankGpu&) const = default;
};

}  // namespace zf
