#include "commands/progress.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "text/wrap.hpp"

namespace zf {
namespace {

using testing::HasSubstr;
using testing::Not;

CandidateEvidence candidate(const char* label, Nanoseconds period_ns) {
  CandidateEvidence made;
  made.label = label;
  made.period_ns_median = period_ns;
  made.period_spread = 0.012;
  return made;
}

const CandidateEvidence kVisited = candidate("pool 8, spread", 99'000'000);
const CandidateEvidence kBest = candidate("pool 4, compact", 97'000'000);

SweepProgress progress_with(const Evidence& evidence) {
  return {SweepPhase::refine, 1, 3, 6, 19 * kSecondNs, 60 * kSecondNs, &evidence, &kVisited, &kBest};
}

TEST(Progress, OneLineSaysPhaseCandidateBestAndTimeLeft) {
  const Evidence evidence;
  EXPECT_EQ(progress_line(progress_with(evidence), 200, Clock::shown),
            "refine 3/6: pool 8, spread | best pool 4, compact: 97.0 ms, spread 1.2 % | at most 41 s left");
}

TEST(Progress, ALineThatIsTooLongLosesPartsAndIsNeverCut) {
  const Evidence evidence;
  const SweepProgress progress = progress_with(evidence);
  const auto line = [&](std::size_t width) { return progress_line(progress, width, Clock::shown); };
  EXPECT_EQ(line(79), "refine 3/6: pool 8, spread | best pool 4, compact: 97.0 ms | at most 41 s left");
  EXPECT_EQ(line(70), "refine 3/6 | best pool 4, compact: 97.0 ms | at most 41 s left");
  EXPECT_EQ(line(50), "refine 3/6 | best 97.0 ms | at most 41 s left");
  EXPECT_EQ(line(39), "refine 3/6 | at most 41 s left");
}

TEST(Progress, TheLongestLineFitsTheNarrowestTerminal) {
  const CandidateEvidence long_label =
      candidate("pool 128, one thread per core, spread over all L3 groups", 12'345'000'000);
  const Evidence evidence;
  const SweepProgress progress{SweepPhase::estimate, 99,        60,          60,         0,
                               600 * kSecondNs,      &evidence, &long_label, &long_label};
  for (std::size_t width = 39; width <= 200; ++width) {
    const std::string line = progress_line(progress, width, Clock::shown);
    EXPECT_LE(line.size(), width);
    EXPECT_THAT(line, testing::EndsWith("at most 600 s left"));
  }
}

TEST(Progress, ASimulatedSweepHasNoClock) {
  Evidence evidence;
  evidence.accuracy_reached = 1;  // nothing is known yet
  const SweepProgress progress = progress_with(evidence);
  EXPECT_EQ(progress_line(progress, 200, Clock::hidden),
            "refine 3/6: pool 8, spread | best pool 4, compact: 97.0 ms, spread 1.2 %");
  EXPECT_EQ(progress_of_round(progress, 200, Clock::hidden),
            "round 2, refine 6 splits: best pool 4, compact: 97.0 ms, spread 1.2 %\n");
}

TEST(Progress, ARoundSaysWhichDifferencesCannotBeSeenYet) {
  Evidence evidence;
  evidence.accuracy_reached = 0.088;
  const std::string text = progress_of_round(progress_with(evidence), 200, Clock::shown);
  EXPECT_EQ(
      text,
      "[ 19.0 s] round 2, refine 6 splits: best pool 4, compact: 97.0 ms, spread 1.2 %; differences below "
      "8.8 % cannot be seen yet; at most 41 s left\n");
  evidence.accuracy_reached = 1;
  EXPECT_THAT(progress_of_round(progress_with(evidence), 200, Clock::shown), Not(HasSubstr("differences")));
}

TEST(Progress, ARoundFitsThePage) {
  Evidence evidence;
  evidence.accuracy_reached = 0.088;
  for (const std::size_t width : {40U, 80U}) {
    std::istringstream lines(progress_of_round(progress_with(evidence), width, Clock::shown));
    for (std::string line; std::getline(lines, line);) EXPECT_LE(columns_of(line), width) << line;
  }
}

}  // namespace
}  // namespace zf
