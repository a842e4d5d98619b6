// Says which splits every sweep measures. Pure.
#pragma once

#include <array>
#include <vector>

#include "homes/split.hpp"
#include "plan/workload.hpp"

namespace zf {

/// Which pools a shared home may have. Only our runtime can be told to use some of its cores, and
/// SuperOffload cannot share a home.
enum class SharedPools { any, whole, none };

/// Returns the pools of a shared home that a job of this framework can have: all, if its optimizer is our
/// runtime or if that is not known, else the whole ones.
SharedPools shared_pools_of(Framework framework);

/// The controls, in the order in which they are measured.
inline constexpr std::array kControls = {Control::shared, Control::half, Control::eighty_twenty,
                                         Control::unbound};

/// Returns whether two splits put every rank on the same CPUs.
bool same_cpus(const Split& a, const Split& b);

/// Returns the splits of kControls on these homes. Those that are equal come once. If a rank has one core,
/// there is only one split. The shared home is left out if it may have no pool.
std::vector<Split> control_splits(const std::vector<Home>& homes,
                                  SharedPools shared_pools = SharedPools::any);

}  // namespace zf
