#include "search/period_levels.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "compare/statistics.hpp"
#include "measure/meter.hpp"

namespace zf {
namespace {

bool is_of(const Evidence& evidence, const Sample& sample, VisitsOf which) {
  return came_after_choice(evidence, sample) == (which == VisitsOf::check);
}

struct Sides {
  std::vector<double> trainings;
  std::vector<double> steps;
};

Sides sides_of(const std::vector<SplitSample>& samples) {
  Sides sides;
  for (const SplitSample& sample : samples) {
    sides.trainings.push_back(static_cast<double>(sample.training_ns));
    sides.steps.push_back(static_cast<double>(sample.step_ns));
  }
  return sides;
}

/// Returns the time of one side in a visit. Of an even number the smaller one in the middle: outliers are
/// long. A visit that was cut short has so few samples that the shortest counts.
double typical(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  return times.size() < Meter::kMinSamples ? times.front() : times[(times.size() - 1) / 2];
}

/// Returns by how much both sides must be longer to make `wanted` instead of `period`. The copies, which are
/// a part of each period, stay as long as they are, unless drift has made `wanted` shorter than these alone.
double factor_for(double wanted, double period, const Schedule& schedule) {
  const double copies = period_of(0, 0, schedule);
  return wanted > copies ? (wanted - copies) / (period - copies) : wanted / period;
}

}  // namespace

bool came_after_choice(const Evidence& evidence, const Sample& sample) {
  return evidence.estimate_round >= 0 && sample.round >= evidence.estimate_round;
}

VisitPeriod period_of_visit(const std::vector<SplitSample>& samples, const Schedule& schedule) {
  const auto [trainings, steps] = sides_of(samples);
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
    visits.push_back({key.second, key.first, period_of_visit(values, schedule), values});
  return visits;
}

SplitTimes undisturbed_times(const Evidence& evidence, int id, const Schedule& schedule) {
  std::vector<SplitSample> samples;
  std::set<int> rounds;  // a round has at most one visit of a candidate
  for (const Sample& sample : evidence.samples) {
    if (sample.candidate != id) continue;
    samples.push_back(sample.times);
    rounds.insert(sample.round);
  }
  const std::size_t count = samples.size();
  const std::size_t at = count < Meter::kMinSamples ? 0 : rounds.size() == 1 ? count / 4 : (count - 1) / 2;
  auto [trainings, steps] = sides_of(samples);
  std::sort(trainings.begin(), trainings.end());
  std::sort(steps.begin(), steps.end());
  return {period_of(trainings[at], steps[at], schedule), trainings[at], steps[at]};
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

std::vector<SplitTimes> fitted_times(const std::vector<SweepVisit>& visits, const Levels& levels,
                                     const Schedule& schedule) {
  std::vector<std::vector<SplitSample>> samples(levels.candidates());
  for (const std::size_t i : levels.kept()) {
    auto& all = samples[visits[i].candidate];
    all.insert(all.end(), visits[i].samples.begin(), visits[i].samples.end());
  }
  std::vector<SplitTimes> times(levels.candidates());
  for (std::size_t candidate = 0; candidate < samples.size(); ++candidate) {
    if (!levels.has(candidate)) continue;
    const auto [trainings, steps] = sides_of(samples[candidate]);
    const double training = typical(trainings);
    const double step = typical(steps);
    const double period = levels.of(candidate);
    const double factor = factor_for(period, period_of(training, step, schedule), schedule);
    times[candidate] = {period, factor * training, factor * step};
  }
  return times;
}

}  // namespace zf
