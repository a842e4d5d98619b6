// Measures what it costs to use only splits that a launcher can be told, against the free choice.
#include "search/tuning.hpp"

#include <utility>
#include <vector>

#include "compare/levels.hpp"
#include "search/period_levels.hpp"

namespace zf {
namespace {

constexpr int kRounds = 4;
constexpr int kSamplesPerVisit = 8;

}  // namespace

std::optional<Difference> restriction_cost(const Split& kept, const Split& free, const Schedule& schedule,
                                           Meter& meter, Nanoseconds deadline_ns,
                                           const std::function<bool()>& stop) {
  const auto visit = [&](const Split& split) {
    return meter.measure(split, {.samples = kSamplesPerVisit, .deadline_ns = deadline_ns, .stop = stop});
  };
  std::vector<Visit> visits;
  for (int round = 0; round < kRounds; ++round) {
    if (round > 0 && (meter.now() >= deadline_ns || stop())) break;
    // The other one first in every second round, so that a steady drift makes neither seem slower.
    const bool free_first = round % 2 == 0;
    std::vector<SplitSample> with_free = visit(free_first ? free : kept);
    std::vector<SplitSample> with_kept = visit(free_first ? kept : free);
    if (!free_first) std::swap(with_free, with_kept);
    if (with_free.empty() || with_kept.empty()) break;
    visits.push_back({0, round, period_of_visit(with_kept, schedule).ns});
    visits.push_back({1, round, period_of_visit(with_free, schedule).ns});
  }
  if (visits.empty()) return std::nullopt;
  return Levels(visits, 2).difference(0, 1);
}

}  // namespace zf
