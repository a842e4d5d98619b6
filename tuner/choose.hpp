// From evidence to a choice: the knee, and why, in words. Pure.
#pragma once

#include <string>
#include <vector>

#include "plan/plan.hpp"

namespace zf {

/// Two candidates tie when they differ by less than this, or by less than the noise.
inline constexpr double kTie = 0.02;

/// Fills in what can be computed from the samples: every candidate's medians and spread, the noise floor (the
/// median over candidates of spread / sqrt(samples)) and the roofline. Candidates keep their ids.
void summarize(Evidence& evidence, int ranks);

/// The knee: of all candidates that tie with the fastest, the one with the fewest pool threads, then the
/// fewest cores, then the lowest time. Precondition: at least one candidate, summarized.
const CandidateEvidence& knee_of(const Evidence& evidence);

/// The relative difference below which this evidence cannot tell two candidates apart.
double tie_of(const Evidence& evidence);

/// knee_of(), in words.
Choice choose(const Evidence& evidence);

}  // namespace zf
