// The habits of frameworks that the benchmark imitates. Pure.
#pragma once

#include "engine/working_set.hpp"
#include "measure/compute_team.hpp"
#include "plan/workload.hpp"

namespace zf {

/// Returns what training's threads do after the last training step of an update. In mode wait, PyTorch, ZeRO
/// and ZenFlow run the optimizer step on these same threads. Everywhere else they go on spinning, also beside
/// the steps of our optimizer and SuperOffload's, which are in a process of their own.
inline ComputeTeam::Afterwards after_update(Framework framework, Mode mode) {
  const bool own_process = framework == Framework::native || framework == Framework::superoffload;
  return mode == Mode::wait && !own_process ? ComputeTeam::Afterwards::sleep : ComputeTeam::Afterwards::spin;
}

/// Returns the memory in which the framework keeps its optimizer's state. Ours is shared by two processes.
inline WorkingSet::Memory optimizer_memory(Framework framework) {
  return framework == Framework::native ? WorkingSet::Memory::shared : WorkingSet::Memory::own;
}

}  // namespace zf
