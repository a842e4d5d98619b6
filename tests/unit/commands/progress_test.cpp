#include "commands/progress.hpp"

#include <gtest/gtest.h>

namespace zf {
namespace {

TEST(Progress, OneLineSaysPhaseCandidateBestAndTimeLeft) {
  CandidateEvidence visited;
  visited.label = "pool 8, spread";
  CandidateEvidence best;
  best.label = "pool 4, compact";
  best.period_ns_median = 97'000'000;
  best.period_spread = 0.012;
  const Evidence evidence;
  const SweepProgress progress{SweepPhase::refine, 1,         3,        6,    19 * kSecondNs,
                               60 * kSecondNs,     &evidence, &visited, &best};
  EXPECT_EQ(progress_line(progress, 0),
            "refine 3/6: pool 8, spread | best pool 4, compact: 97.0 ms, spread 1.2 % | at most 41 s left");
  EXPECT_EQ(progress_line(progress, 20), "refine 3/6: pool 8, ");
}

}  // namespace
}  // namespace zf
