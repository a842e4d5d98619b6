// Which processes disturb a measurement, by the CPU time that they took meanwhile. Pure.
#pragma once

#include <vector>

#include "inspect/activity.hpp"
#include "measure/disturbance.hpp"

namespace zf {

/// The least that a neighbour takes, in CPUs. Below it every process that is not idle would be one.
inline constexpr double kLeastNeighbour = 0.05;

/// Returns the processes that took kLeastNeighbour or more of the CPUs together, the busiest first. `times`
/// are those of cpu_times().
std::vector<Neighbour> neighbours_of(const std::vector<CpuTime>& times);

}  // namespace zf
