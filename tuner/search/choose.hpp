// From evidence to a choice: what ties, what is still undecided, and why, in words. Pure.
#pragma once

#include <vector>

#include "homes/split.hpp"
#include "plan/plan.hpp"
#include "text/statistics.hpp"

namespace zf {

/// Differences below this are ties, where nobody asks for another accuracy.
inline constexpr double kTie = 0.02;

/// A candidate for this split, not measured yet.
CandidateEvidence candidate_of(int id, const Split& split);

/// Whether a plan can say it: unbound is measured to be compared with, and nothing else.
bool is_eligible(const CandidateEvidence& candidate);

/// The candidate that is this control; null where there is none.
const CandidateEvidence* control_of(const Evidence& evidence, Control control);

/// Whether a step can have been that fast beside its roofline (not above it by more than the noise, at least
/// 15 %) and that slow (not below a tenth of it). What cannot be was a disturbance: measure again.
bool is_possible(const SplitSample& sample, double noise);

/// Fills in what can be computed from the samples: every candidate's medians and spreads, the noise floor,
/// the accuracy reached and the roofline. Candidates keep their ids.
void summarize(Evidence& evidence, const Workload& workload);

/// The relative difference below which two candidates tie: the accuracy that was asked for, or the noise
/// floor where that is more.
double tie_of(const Evidence& evidence);

// All of the following need at least one eligible candidate, and summarize() before.

/// The shortest period.
const CandidateEvidence& fastest_of(const Evidence& evidence);

/// How much longer the period of candidate `b` is than that of `a`, round by round.
Difference difference(const Evidence& evidence, const Workload& workload, int a, int b);

/// The knee: of all eligible candidates that tie with the fastest (is_tie() by tie_of()), the one with the
/// fewest pool threads, then the fewest cores.
const CandidateEvidence& knee_of(const Evidence& evidence, const Workload& workload);

/// Candidates that another visit could help to decide: those whose difference to the fastest is not known to
/// the accuracy wanted and would change the choice, and the fastest itself; everyone that the choice rests on
/// (with half and half, unless that is surely slower) is visited twice, and again while the noise floor is
/// above the accuracy wanted. Empty: decided.
std::vector<int> undecided(const Evidence& evidence, const Workload& workload);

/// The choice, and why. The knee; but where the noise is above the accuracy wanted and no split beats half
/// and half by more than noise (is_noise()), the latter, as the conservative plan.
Choice choose(const Evidence& evidence, const Workload& workload);

}  // namespace zf
