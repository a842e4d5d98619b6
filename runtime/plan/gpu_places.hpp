// Where a node has its GPUs: the part of a plan's identity that the class leaves out.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/id_set.hpp"

namespace zf {

/// GPUs of one kind on one NUMA node, neighbours in the order of their PCI addresses.
struct GpuPlace {
  std::string kind;  ///< vendor and device of PCI: "10de:2330"
  int count = 1;
  std::optional<Node> node = {};  ///< absent: not one node, or not known
  bool operator==(const GpuPlace&) const = default;
};

/// The GPUs that PCI shows, whatever their drivers are and whichever of them a job gets.
struct GpuPlaces {
  std::string fingerprint;       ///< 16 hex digits
  std::vector<GpuPlace> places;  ///< empty: there is no GPU
  bool operator==(const GpuPlaces&) const = default;
};

}  // namespace zf
