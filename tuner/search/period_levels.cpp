#include "search/period_levels.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "compare/statistics.hpp"

namespace zf {
namespace {

bool is_of(const Evidence& evidence, const Sample& sample, VisitsOf which) {
  return came_after_choice(evidence, sample) == (which == VisitsOf::check);
}

}  // namespace

bool came_after_choice(const Evidence& evidence, const Sample& sample) {
  return evidence.estimate_round >= 0 && sample.round >= evidence.estimate_round;
}

std::vector<VisitPeriods> visits_of(const Evidence& evidence, const Schedule& schedule, VisitsOf which) {
  std::map<int, std::size_t> position;
  for (std::size_t i = 0; i < evidence.candidates.size(); ++i) position[evidence.candidates[i].id] = i;
  std::map<std::pair<int, std::size_t>, std::vector<double>> periods;
  for (const Sample& sample : evidence.samples) {
    if (!is_of(evidence, sample, which)) continue;
    periods[{sample.round, position.at(sample.candidate)}].push_back(period_ns(sample.times, schedule));
  }
  std::vector<VisitPeriods> visits;
  for (auto& [key, values] : periods) visits.push_back({key.second, key.first, std::move(values)});
  return visits;
}

std::size_t count_periods(const Evidence& evidence, int id, VisitsOf which) {
  return static_cast<std::size_t>(std::count_if(
      evidence.samples.begin(), evidence.samples.end(),
      [&](const Sample& sample) { return sample.candidate == id && is_of(evidence, sample, which); }));
}

Levels levels_of(const Evidence& evidence, const std::vector<VisitPeriods>& visits) {
  std::vector<Visit> medians;
  for (const VisitPeriods& visit : visits) {
    medians.push_back({visit.candidate, visit.round, median(visit.periods)});
  }
  return {medians, evidence.candidates.size()};
}

}  // namespace zf
