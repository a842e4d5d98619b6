#include "search/risk.hpp"

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <limits>

namespace zf {
namespace {

double period_if(const SplitTimes& split, const Schedule& schedule, double training, double step) {
  return split.period * period_of(training * split.training, step * split.step, schedule) /
         period_of(split.training, split.step, schedule);
}

}  // namespace

Risks::Risks(const std::vector<SplitTimes>& measured, const Schedule& schedule) : schedule_(schedule) {
  assert(!measured.empty());
  least_ = std::numeric_limits<double>::infinity();
  least_of_.fill(least_);
  for (const SplitTimes& split : measured) {
    least_ = std::min(least_, split.period);
    for (std::size_t i = 0; i < least_of_.size(); ++i) {
      const auto& [training, step] = kWaysToDiffer[i];
      if (can_differ(split))
        least_of_[i] = std::min(least_of_[i], period_if(split, schedule, training, step));
    }
  }
}

double Risks::loss(const SplitTimes& split) const { return split.period / least_ - 1; }

double Risks::loss_if_it_differs(const SplitTimes& split) const {
  if (!can_differ(split)) return loss(split);
  double most = -std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < least_of_.size(); ++i) {
    const auto& [training, step] = kWaysToDiffer[i];
    most = std::max(most, period_if(split, schedule_, training, step) / least_of_[i] - 1);
  }
  return most;
}

double Risks::risk(const SplitTimes& split) const {
  if (!can_differ(split)) return loss(split);
  return loss(split) + kDifferWeight * loss_if_it_differs(split);
}

}  // namespace zf
