#include "search/restriction_cost.hpp"

#include <fmt/core.h>

#include <cmath>
#include <vector>

namespace zf {
namespace {

constexpr int kRounds = 4;
constexpr int kSamplesPerVisit = 8;

}  // namespace

Difference restriction_cost(const Split& kept, const Split& free, const Schedule& schedule, Meter& meter,
                            Nanoseconds deadline_ns, const std::function<bool()>& stop) {
  std::vector<Visit> visits;
  const auto visit = [&](const Split& split, std::size_t candidate, int round) {
    std::vector<double> periods;
    for (const SplitSample& sample : meter.measure(split, {kSamplesPerVisit, deadline_ns})) {
      periods.push_back(period_ns(sample, schedule));
    }
    visits.push_back({candidate, round, median(periods)});
  };
  for (int round = 0; round < kRounds; ++round) {
    if (round > 0 && (meter.now() >= deadline_ns || stop())) break;
    visit(free, 0, round);
    visit(kept, 1, round);
  }
  return Levels(visits, 2).difference(0, 1);
}

std::string cost_in_words(const Difference& cost, double tie, const std::string& free_label) {
  if (!cost.is_known()) {
    return fmt::format("A period is {:.1f} % {} than with the free choice, \"{}\" (95 % confidence: unknown)",
                       100 * std::abs(cost.estimate), cost.estimate > 0 ? "longer" : "shorter", free_label);
  }
  const double percent = 100 * std::abs(cost.estimate);
  if (std::abs(cost.estimate) < tie) {
    return fmt::format("This ties with the free choice, \"{}\" ({:+.1f} % per period)", free_label,
                       100 * cost.estimate);
  }
  return fmt::format(
      "A period is {:.1f} % {} than with the free choice, \"{}\" (95 % confidence: {:.1f} to {:.1f} %)",
      percent, cost.estimate > 0 ? "longer" : "shorter", free_label, 100 * cost.low, 100 * cost.high);
}

}  // namespace zf
