// Cuts the cores of one domain into pieces and splits few L3 groups in doing so. Pure.
#pragma once

#include <vector>

namespace zf {

/// Returns the cores of each piece as ascending indexes; every core is in exactly one piece. `groups[i]` is
/// the L3 group of the i-th core of a domain, in topological order. `sizes` are the sizes of the pieces, in
/// the order in which they should lie. A piece is a run of neighbouring cores, unless choosing whole L3
/// groups splits fewer of them. Precondition: the sizes add up to the number of cores.
std::vector<std::vector<int>> cut_cores(const std::vector<int>& groups, const std::vector<int>& sizes);

/// Does the same for cores that differ: `kinds[i]` is the CPU kind of the i-th core. Every piece gets a share
/// of each kind in proportion to its size, so that no rank has only slow cores and makes the others wait.
std::vector<std::vector<int>> cut_cores(const std::vector<int>& groups, const std::vector<int>& kinds,
                                        const std::vector<int>& sizes);

/// Returns runs of neighbouring cores of these sizes, whatever L3 groups they split.
std::vector<std::vector<int>> consecutive_pieces(const std::vector<int>& sizes);

}  // namespace zf
