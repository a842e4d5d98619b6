// Says which splits every sweep measures. Pure.
#pragma once

#include <vector>

#include "homes/split.hpp"

namespace zf {

/// Which pools a shared home may have. Only our runtime can be told to use some of its cores, and
/// SuperOffload cannot share a home.
enum class SharedPools { any, whole, none };

/// Returns whether two splits put every rank on the same CPUs.
bool same_cpus(const Split& a, const Split& b);

/// Returns the controls: shared home, half and half, 80/20, unbound. Those that are equal on these homes come
/// once. If a rank has one core, there is only one split. The shared home is left out if it may have no pool.
std::vector<Split> control_splits(const std::vector<Home>& homes,
                                  SharedPools shared_pools = SharedPools::any);

}  // namespace zf
