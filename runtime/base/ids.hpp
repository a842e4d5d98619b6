// The two kinds of number that must never be mixed up: a PU (one hardware thread) and a NUMA node.
#pragma once

#include <compare>

namespace zf {

/// One hardware thread, named by its OS index: the N of /sys/devices/system/cpu/cpuN.
/// Never a count, never a logical index.
struct Pu {
  int os_index = 0;
  auto operator<=>(const Pu&) const = default;
};

/// One NUMA node, named by its OS index: the N of /sys/devices/system/node/nodeN. May have gaps.
struct Node {
  int os_index = 0;
  auto operator<=>(const Node&) const = default;
};

}  // namespace zf
