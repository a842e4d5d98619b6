#include "report/sides.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "../plan/make_plan.hpp"

namespace zf {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

constexpr double kTraining = 10e6;

/// Returns what is said of divided homes with pools of 2, 4, 6, … threads and these step times, beside a
/// training of 10 ms.
std::string words_of(const std::vector<double>& steps_ms) {
  Sides sides;
  for (const double step_ms : steps_ms) {
    SidesPoint point;
    point.pool_threads = 2 + 2 * static_cast<int>(sides.divided.size());
    point.training = Quartiles{kTraining, kTraining, kTraining};
    point.step = {step_ms * 1e6, step_ms * 1e6, step_ms * 1e6};
    sides.divided.push_back(point);
  }
  Plan plan = make_plan();
  plan.workload.mode = Mode::overlap;
  return sides_in_words(plan, sides);
}

TEST(Sides, CrossBetweenTheTwoPoolsWhereTheLongerSideChanges) {
  EXPECT_THAT(words_of({30, 15, 8, 7}),
              EndsWith("cross between pools of 4 and 6 threads: with fewer, training waits for the step."));
}

TEST(Sides, DoNotCrossWhereOneSideIsLongerThroughout) {
  EXPECT_THAT(words_of({30, 20, 15}), EndsWith("do not cross: the step is the longer side at every size that "
                                               "was measured."));
  EXPECT_THAT(words_of({9, 8, 7}), EndsWith("do not cross: the step is the shorter side at every size that "
                                            "was measured."));
}

TEST(Sides, ThatCrossTwiceOrTheOtherWayRoundNameNoSize) {
  const char* const changes = "Which side of divided homes is longer changes from size to size.";
  EXPECT_THAT(words_of({30, 8, 15}), EndsWith(changes)) << "a pool across two NUMA nodes can be slower again";
  EXPECT_THAT(words_of({8, 30}), EndsWith(changes));
}

TEST(Sides, SayNothingOfACrossingWithoutTrainingTimes) {
  Sides sides;
  sides.divided.resize(2);
  EXPECT_THAT(sides_in_words(make_plan(), sides), Not(HasSubstr("cross")));
}

}  // namespace
}  // namespace zf
