// Says under which splits a trial runs the job, and how much of a split reaches the job. Pure.
#pragma once

#include <string>
#include <vector>

#include "homes/homes.hpp"
#include "homes/split.hpp"
#include "plan/plan.hpp"

namespace zf {

/// A split for the job to run under.
struct TrialSplit {
  Split split;
  int evidence_id = -1;  ///< CandidateEvidence::id; -1 if the sweep did not measure it
};

/// The default of `sizes` of trial_splits(): the sweep's fastest pool and three other sizes of it.
inline constexpr int kDefaultTrialSizes = 4;

/// Returns the splits to try. The plan's own split comes first. Then come `sizes` pools: that of the fastest
/// eligible candidate of the sweep, pools of half, twice and four times as many cores as far as the homes
/// allow them (the sweep knows the machine well, but the job only by its workload), and then the next
/// fastest. The plan's own split takes the place of one of them only if it is the same. Pools on a part of a
/// shared home are proposed only for the frameworks `native` and `unknown`: no other can be told. The
/// controls follow: shared home, half and half, 80/20, unbound. Equal bindings come once. Homes with one
/// shared core leave only one bound split.
std::vector<TrialSplit> trial_splits(const Plan& plan, const std::vector<Home>& homes, int sizes);

/// Returns the splits without those under which the job would be the same as under an earlier one. If the
/// optimizer runs in the training process (frameworks `torch` and `deepspeed_offload`), all that a job gets
/// of a split is what process_cpus() says. Any other job may read the rest of its plan.
std::vector<TrialSplit> without_equal_jobs(std::vector<TrialSplit> splits, Framework framework);

/// Returns whether the words of a command name `zf-tune exec`, also inside of one word, as in `sh -c`.
bool names_exec(const std::vector<std::string>& command);

/// Returns in a sentence how much of a split reaches the job; empty if a job of this framework always gets
/// all of it. `splits` are those that are tried.
std::string reach_of_splits(Framework framework, const std::vector<TrialSplit>& splits);

/// Returns a warning if this command seems to start all runs alike: with several ranks only a launcher
/// inside of it can bind each rank. Empty if there is nothing to warn of.
std::string launcher_warning(const std::vector<std::string>& command, int ranks);

}  // namespace zf
