// From evidence to a choice: the knee, and why, in words. Pure.
#pragma once

#include <string>
#include <vector>

#include "plan/plan.hpp"
#include "tuner/split.hpp"

namespace zf {

/// Two candidates tie when they differ by less than this, or by less than the noise.
inline constexpr double kTie = 0.02;

/// A candidate for this split, not measured yet.
CandidateEvidence candidate_of(int id, const Split& split);

/// Fills in what can be computed from the samples: every candidate's medians and spread, the noise floor (the
/// median over candidates of spread / sqrt(samples)) and the roofline. Candidates keep their ids.
void summarize(Evidence& evidence, int ranks, int update_interval);

/// Whether a plan can say it: unbound is measured to be compared with, and nothing else.
bool is_eligible(const CandidateEvidence& candidate);

/// The knee: of all eligible candidates that tie with the fastest, the one with the fewest pool threads, then
/// the fewest cores, then the lowest time. Precondition: at least one eligible candidate, summarized.
const CandidateEvidence& knee_of(const Evidence& evidence);

/// The relative difference below which this evidence cannot tell two candidates apart.
double tie_of(const Evidence& evidence);

/// knee_of(), in words.
Choice choose(const Evidence& evidence);

}  // namespace zf
