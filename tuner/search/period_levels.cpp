#include "search/period_levels.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "compare/statistics.hpp"
#include "measure/meter.hpp"

namespace zf {
namespace {

bool is_of(const Evidence& evidence, const Sample& sample, VisitsOf which) {
  return came_after_choice(evidence, sample) == (which == VisitsOf::check);
}

/// Returns the time of one side in a visit. Of an even number the smaller one in the middle: outliers are
/// long. A visit that was cut short has so few samples that the shortest counts.
double typical(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  return times.size() < Meter::kMinSamples ? times.front() : times[(times.size() - 1) / 2];
}

}  // namespace

bool came_after_choice(const Evidence& evidence, const Sample& sample) {
  return evidence.estimate_round >= 0 && sample.round >= evidence.estimate_round;
}

VisitPeriod period_of_visit(const std::vector<SplitSample>& samples, const Schedule& schedule) {
  std::vector<double> steps;
  std::vector<double> trainings;
  for (const SplitSample& sample : samples) {
    steps.push_back(static_cast<double>(sample.step_ns));
    trainings.push_back(static_cast<double>(sample.training_ns));
  }
  const double step = typical(steps);
  const double training = typical(trainings);
  const double period = period_of(training, step, schedule);
  const double by_training = period_of(training * (1 + median_error(trainings)), step, schedule) - period;
  const double by_step = period_of(training, step * (1 + median_error(steps)), schedule) - period;
  return {period, std::hypot(by_training, by_step) / period};
}

std::vector<SweepVisit> visits_of(const Evidence& evidence, const Schedule& schedule, VisitsOf which) {
  std::map<int, std::size_t> position;
  for (std::size_t i = 0; i < evidence.candidates.size(); ++i) position[evidence.candidates[i].id] = i;
  std::map<std::pair<int, std::size_t>, std::vector<SplitSample>> samples;
  for (const Sample& sample : evidence.samples) {
    if (!is_of(evidence, sample, which)) continue;
    samples[{sample.round, position.at(sample.candidate)}].push_back(sample.times);
  }
  std::vector<SweepVisit> visits;
  for (const auto& [key, values] : samples)
    visits.push_back({key.second, key.first, period_of_visit(values, schedule), values.size()});
  return visits;
}

std::size_t count_periods(const Evidence& evidence, int id, VisitsOf which) {
  return static_cast<std::size_t>(std::count_if(
      evidence.samples.begin(), evidence.samples.end(),
      [&](const Sample& sample) { return sample.candidate == id && is_of(evidence, sample, which); }));
}

Levels levels_of(const Evidence& evidence, const std::vector<SweepVisit>& visits) {
  std::vector<Visit> periods;
  for (const SweepVisit& visit : visits) periods.push_back({visit.candidate, visit.round, visit.period.ns});
  return {periods, evidence.candidates.size()};
}

}  // namespace zf
