#include "search/restriction_cost.hpp"

#include <fmt/core.h>

#include <cmath>
#include <vector>

namespace zf {
namespace {

constexpr int kRounds = 4;
constexpr int kSamplesPerVisit = 8;

}  // namespace

Difference restriction_cost(const Split& kept, const Split& free, int update_interval, Meter& meter,
                            Nanoseconds deadline_ns, const std::function<bool()>& stop) {
  std::vector<Observation> with;
  std::vector<Observation> without;
  const auto visit = [&](const Split& split, int round, std::vector<Observation>& observations) {
    for (const SplitSample& sample : meter.measure(split, kSamplesPerVisit, deadline_ns)) {
      observations.push_back({round, static_cast<double>(period_ns(sample, update_interval))});
    }
  };
  for (int round = 0; round < kRounds; ++round) {
    if (round > 0 && (meter.now() >= deadline_ns || stop())) break;
    visit(free, round, without);
    visit(kept, round, with);
  }
  return compare(without, with);
}

std::string cost_in_words(const Difference& cost, double tie, const std::string& free_label) {
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
