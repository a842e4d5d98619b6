// Decides from the evidence of a sweep: which splits tie, which need more visits, which one wins. Pure.
#pragma once

#include <vector>

#include "homes/split.hpp"
#include "plan/plan.hpp"
#include "search/judgement.hpp"

namespace zf {

/// Returns a candidate for this split that has not been measured yet.
CandidateEvidence new_candidate(int id, const Split& split);

/// Returns whether a plan can express this candidate. Unbound cannot be: it is measured only for comparison.
bool is_eligible(const CandidateEvidence& candidate);

/// Returns the candidate that is this control, or null if there is none.
const CandidateEvidence* control_of(const Evidence& evidence, Control control);

/// Returns whether the step's time is believable next to that of its roofline loop. A step must not be faster
/// than the roofline by more than 15 % or three times the noise, whichever is more, and must reach a tenth of
/// the roofline's speed. If not, something disturbed the measurement: measure again.
bool is_possible(const SplitSample& sample, double noise);

/// Computes from the samples: the medians and spreads of every candidate, the noise floor, the
/// accuracy reached and the roofline. Candidates keep their ids.
void summarize(Evidence& evidence, const Workload& workload);

/// Returns the relative difference below which two candidates tie: the accuracy that was asked for or the
/// noise floor, whichever is more.
double tie_of(const Evidence& evidence);

// All of the following need at least one eligible candidate. Call summarize() before them.

/// Returns the candidates as the judgement sees them: times are periods, and blocks are rounds.
std::vector<Contender> contenders_of(const Evidence& evidence, const Workload& workload);

/// Returns the candidate with the shortest period.
const CandidateEvidence& fastest_of(const Evidence& evidence);

/// Returns how much longer the period of candidate `b` is than that of `a`, round by round.
Difference period_difference(const Evidence& evidence, const Workload& workload, int a, int b);

/// Returns the eligible candidate with the smallest pool that ties with the fastest.
const CandidateEvidence& knee_of(const Evidence& evidence, const Workload& workload);

/// Returns the ids of the candidates that need another visit, ascending; none if all is decided. A candidate
/// needs one if its difference to the fastest is not known to the accuracy wanted and could change the
/// choice; then the fastest needs one too. The fastest, the knee and half and half (unless that is clearly
/// slower) are visited at least twice, and again while the noise floor is above the accuracy wanted.
std::vector<int> candidates_to_revisit(const Evidence& evidence, const Workload& workload);

/// Returns which candidate wins, by position in `evidence.candidates` (judge()).
Verdict decide(const Evidence& evidence, const Workload& workload);

}  // namespace zf
