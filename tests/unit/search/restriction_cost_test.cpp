#include "search/tuning.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace zf {
namespace {

/// Answers with given times. Every visit takes a second of the meter's clock, and the machine slows down by 4
/// % with every visit.
class DriftingMeter : public Meter {
 public:
  explicit DriftingMeter(double kept_factor) : kept_factor_(kept_factor) {}
  std::vector<SplitSample> measure(const Split& split, const VisitLimits& limits) override {
    visited.push_back(split.label);
    const auto visits_before = static_cast<double>(visited.size() - 1);
    const double ns = 1e6 * std::pow(1.04, visits_before) * (split.label == "kept" ? kept_factor_ : 1);
    std::vector<SplitSample> result(static_cast<std::size_t>(limits.samples));
    for (SplitSample& sample : result) {
      sample.step_ns = static_cast<Nanoseconds>(ns);
      sample.training_ns = 1000;
    }
    return result;
  }
  std::uint64_t elements_per_rank() const override { return 1; }
  double scale() const override { return 1; }
  std::string isa() const override { return "none"; }
  Nanoseconds now() const override { return static_cast<Nanoseconds>(visited.size()) * kSecondNs; }

  std::vector<std::string> visited;

 private:
  double kept_factor_;
};

constexpr Nanoseconds kNever = std::numeric_limits<Nanoseconds>::max();

Difference cost_with(Meter& meter, Nanoseconds deadline_ns, bool stopped = false) {
  Split kept;
  kept.label = "kept";
  Split free;
  free.label = "free";
  return restriction_cost(kept, free, {Mode::overlap, 4}, meter, deadline_ns, [&] { return stopped; })
      .value();
}

TEST(RestrictionCost, IsTakenInTurnSoThatDriftHitsBothAlike) {
  DriftingMeter meter(1.25);
  const Difference cost = cost_with(meter, kNever);
  EXPECT_NEAR(cost.estimate, -0.2, 0.002) << "always in the same order it would be -0.23";
  EXPECT_LT(cost.low, -0.2);
  EXPECT_GT(cost.high, -0.2);
  EXPECT_EQ(std::count(meter.visited.begin(), meter.visited.end(), "kept"),
            std::count(meter.visited.begin(), meter.visited.end(), "free"));
}

TEST(RestrictionCost, EndsWithTheBudgetButNotBeforeOneVisitEach) {
  DriftingMeter late(1.1);
  EXPECT_NEAR(cost_with(late, 0).estimate, 1 / (1.1 * 1.04) - 1, 1e-3) << "one pair cannot tell the drift";
  EXPECT_EQ(late.visited.size(), 2U);
  DriftingMeter budget(1.1);
  cost_with(budget, 3 * kSecondNs);
  EXPECT_EQ(budget.visited.size(), 4U);
  DriftingMeter stopped(1.1);
  cost_with(stopped, kNever, true);
  EXPECT_EQ(stopped.visited.size(), 2U);
}

TEST(RestrictionCost, OnePairOfVisitsTellsNothing) {
  DriftingMeter late(1.1);
  EXPECT_FALSE(cost_with(late, 0).is_known());
}

}  // namespace
}  // namespace zf
