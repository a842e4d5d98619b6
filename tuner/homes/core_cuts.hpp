// Cutting the cores of one NUMA node into pieces so that few L3 groups are torn. Pure.
#pragma once

#include <vector>

namespace zf {

/// `groups[i]` is the L3 group of the i-th core of a node, in topological order; `sizes` are the pieces
/// wanted, in the order they should lie in. Returns for each piece its cores' indexes, ascending; every core
/// is in exactly one piece. Pieces are runs of neighbouring cores, unless choosing whole L3 groups tears
/// fewer of them. Precondition: the sizes add up to the number of cores.
std::vector<std::vector<int>> cut_cores(const std::vector<int>& groups, const std::vector<int>& sizes);

/// The same where cores differ: `kinds[i]` is the CPU kind of the i-th core. Every piece gets its part of
/// each kind, by its size, so that no rank waits for another that has the slow cores alone.
std::vector<std::vector<int>> cut_cores(const std::vector<int>& groups, const std::vector<int>& kinds,
                                        const std::vector<int>& sizes);

}  // namespace zf
