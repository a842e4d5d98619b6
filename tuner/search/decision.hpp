// Decides from the evidence of a sweep: which splits tie, which need more visits, which one wins. Pure.
#pragma once

#include <cstddef>
#include <vector>

#include "base/clock.hpp"
#include "base/state_format.hpp"
#include "homes/split.hpp"
#include "plan/evidence.hpp"
#include "plan/period.hpp"
#include "plan/workload.hpp"
#include "search/judgement.hpp"

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

/// Returns the largest relative difference that may be a tie (tie_of() of judgement.hpp).
double tie_of(const Evidence& evidence);

// All of the following need at least one eligible candidate. Call summarize() before them.

/// Returns the visits of the search as a contest; contenders are the candidates. Leaves out the visits that
/// came after the choice, to estimate it.
Contest contest_of(const Evidence& evidence, const Workload& workload);

/// Returns the candidate with the shortest period.
const CandidateEvidence& fastest_of(const Evidence& evidence);

/// Returns how much longer the period of candidate `b` is than that of `a`: by the visits that came after the
/// choice if they are enough for an interval, otherwise by those of the search.
Difference period_difference(const Evidence& evidence, const Workload& workload, int a, int b);

/// Returns the ids of at most `most` candidates that need another visit, ascending; none if all is decided.
/// These are the one that judge() chooses, and those with a risk that could be lower by more than
/// Judgement::same_risk, since it is known only within half of the interval of their difference; the least
/// risk first. So are those left out that are too slow to compete.
std::vector<int> candidates_to_revisit(const Evidence& evidence, const Workload& workload, std::size_t most);

/// Why a candidate won.
enum class Grounds {
  fastest,    ///< is the fastest, or is preferred among those that tie with it
  safer,      ///< loses less than `instead_of` if the job differs from its workload
  not_shown,  ///< is the shared home, and `instead_of` was not shown to be faster
  corrected,  ///< the visits after the choice showed `instead_of` to be worse than `beaten_by`
};

/// A candidate that won. Candidates are positions in `evidence.candidates`.
struct Decision {
  std::size_t winner = 0;
  Grounds grounds = Grounds::fastest;
  std::size_t instead_of = 0;      ///< see Grounds
  std::size_t beaten_by = 0;       ///< may be the winner, or not
  bool unbound_is_better = false;  ///< running unbound is surely faster than the winner and every split
};

/// Returns which candidate wins: what judge() chooses. If the visits that came after the choice show that it
/// is surely slower than its runner-up, by more than the accuracy and what it is safer by, the others are
/// judged without it. If is_lost_in_noise(), the shared home wins.
Decision decide(const Evidence& evidence, const Workload& workload);

}  // namespace zf
