// Finds the CPUs of one rank in the present allocation: the plan's own, or new ones if the plan must move.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "gpus/visible_gpus.hpp"
#include "launch/launch_request.hpp"
#include "os/allowed.hpp"
#include "os/environment.hpp"
#include "plan/plan.hpp"

namespace zf {

/// A rank's binding for this allocation, and notes on what changed.
struct ResolvedBinding {
  RankBinding binding;
  std::vector<std::string> notes;
  PlannedGpus gpus;       ///< of all ranks, as the binding takes them
  std::size_t ranks = 1;  ///< those that got homes, and their cores together
  std::size_t cores = 0;
};

/// Adds to the notes each line of `now` that is not in `before`.
void add_new_lines(std::vector<std::string>& notes, const std::vector<std::string>& before,
                   const std::vector<std::string>& now);

/// Returns the rank's binding for this allocation, where `ranks` ranks run: the plan's own if the plan fits
/// (see allocation_fit_of()), else a retargeted one; a retargeted one in any case if `other_gpus` says that
/// the homes are those of other GPUs than the plan's. `seen` is what this process may use. Throws
/// Error(stale_plan) if it is ambiguous which CPUs this process sees, and as retarget() does.
ResolvedBinding resolve_binding(const Plan& plan, const EnvNumber& rank, int ranks,
                                const LaunchRequest& request, const Allowed& seen,
                                const Environment& environment, bool other_gpus = false);

}  // namespace zf
