// Turns what was measured into what the rule judges (decision.hpp): fits levels, and summarizes them. Pure.
#pragma once

#include <cstddef>
#include <vector>

#include "base/clock.hpp"
#include "base/state_format.hpp"
#include "homes/split.hpp"
#include "plan/evidence.hpp"
#include "plan/trial_result.hpp"
#include "plan/workload.hpp"
#include "search/decision.hpp"

namespace zf {

/// Returns a candidate for this split that has not been measured yet.
CandidateEvidence new_candidate(int id, const Split& split);

/// Returns whether a plan can express this candidate. Unbound cannot be: it is measured only for comparison.
bool is_eligible(const CandidateEvidence& candidate);

/// Returns whether both sides of the candidate have the whole home.
bool is_shared(const CandidateEvidence& candidate);

/// Returns the median of the job's own optimizer step: ours, which was measured, times step_factor.
Nanoseconds job_step_ns(const CandidateEvidence& candidate, const Workload& workload);

/// Returns the candidate that is this control, or null if there is none.
const CandidateEvidence* control_of(const Evidence& evidence, Control control);

/// Returns whether the step's time is believable next to that of its roofline loop. A step must not be faster
/// than the roofline by more than 15 % or three times the noise, whichever is more, and must reach a tenth of
/// the roofline's speed. If not, something disturbed the measurement: measure again.
bool is_possible(const SplitSample& sample, double noise);

/// Computes from the samples: the medians and spreads of every candidate, the noise floor, the
/// accuracy reached and the roofline. `format` is that of the measured step. Candidates keep their ids.
void summarize(Evidence& evidence, const Workload& workload, StateFormat format = StateFormat::fp32);

/// Returns up to which difference two splits may be equal that have `visits` visits each. While no
/// visit says how much visits differ, the errors of the visits' own values count too: the standard error of
/// each, relative; none if each is one sample.
double noise_of(const Levels& levels, const std::vector<double>& errors, int visits);

/// Returns the levels of a trial's runs: the median of each as a time (the reciprocal of a throughput).
/// Blocks are repetitions.
Levels levels_of(const Trial& trial);

// All of the following need at least one eligible candidate that was measured.

/// Returns the sweep as a contest; contenders are the candidates. Call summarize() before.
Contest contest_of(const Evidence& evidence, const Workload& workload);

/// Returns the trial of a job in this mode as a contest; contenders are the candidates. Nothing is known of
/// their two sides, and nothing checks the choice.
Contest contest_of(const Trial& trial, Mode mode);

/// Returns the candidate with the shortest period.
const CandidateEvidence& fastest_of(const Evidence& evidence);

/// Returns the ids of at most `most` candidates that need another visit, ascending; none if all is decided.
/// These are the one that judge() chooses, and those with a risk that could be lower by more than
/// Judgement::same_risk, since it is known only within half of the interval of their difference; the least
/// risk first. So are those left out that are too slow to compete.
std::vector<int> candidates_to_revisit(const Evidence& evidence, const Workload& workload, std::size_t most);

}  // namespace zf
