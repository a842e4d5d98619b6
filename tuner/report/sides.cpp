#include "report/sides.hpp"

#include <algorithm>
#include <iterator>
#include <map>

#include "base/format.hpp"
#include "base/text.hpp"
#include "compare/statistics.hpp"
#include "plan/period.hpp"
#include "search/contest.hpp"
#include "search/period_levels.hpp"
#include "text/units.hpp"

namespace zf {
namespace {

/// Returns the middle half of what the samples of the search say of one candidate, around the time that its
/// row has (`fitted`); nothing if that is 0, which stands for "not measured".
template <class Value>
std::optional<Quartiles> quartiles_of(const Evidence& evidence, int id, double fitted, Value value) {
  std::vector<double> values;
  for (const Sample& sample : evidence.samples) {
    if (sample.candidate != id || came_after_choice(evidence, sample)) continue;
    values.push_back(value(sample.times.step_ns, sample.times.training_ns));
  }
  if (fitted == 0 || values.empty()) return std::nullopt;
  return Quartiles{std::min(fitted, quantile(values, 0.25)), fitted,
                   std::max(fitted, quantile(values, 0.75))};
}

std::optional<SidesPoint> point_of(const Plan& plan, const CandidateEvidence& candidate) {
  const Schedule schedule = schedule_of(plan.workload, plan.evidence.scale);
  const auto step = [&](Nanoseconds step_ns, Nanoseconds) {
    return schedule.step_factor * static_cast<double>(step_ns);
  };
  const auto training = [&](Nanoseconds, Nanoseconds training_ns) {
    return schedule.mode == Mode::wait ? static_cast<double>(schedule.update_interval * training_ns)
                                       : window_of(training_ns, schedule);
  };
  const auto quartiles = [&](const auto& side) {
    const double fitted = side(candidate.step_ns_median, candidate.training_ns_median);
    return quartiles_of(plan.evidence, candidate.id, fitted, side);
  };
  const auto steps = quartiles(step);
  if (!steps) return std::nullopt;
  return SidesPoint{candidate.pool_threads, candidate.id == plan.choice.candidate, quartiles(training),
                    *steps};
}

/// Returns the candidates of one kind to show, by the size of their pools.
std::map<int, const CandidateEvidence*> shown_of(const Plan& plan, bool shared) {
  std::map<int, const CandidateEvidence*> shown;
  for (const CandidateEvidence& candidate : plan.evidence.candidates) {
    if (!is_eligible(candidate) || is_shared(candidate) != shared) continue;
    const CandidateEvidence*& best = shown[candidate.pool_threads];
    const bool keeps = best != nullptr && (best->id == plan.choice.candidate ||
                                           best->period_ns_median <= candidate.period_ns_median);
    if (!keeps || candidate.id == plan.choice.candidate) best = &candidate;
  }
  return shown;
}

std::vector<SidesPoint> points_of(const Plan& plan, bool shared) {
  std::vector<SidesPoint> points;
  for (const auto& [pool, candidate] : shown_of(plan, shared)) {
    if (const auto point = point_of(plan, *candidate)) points.push_back(*point);
  }
  return points;
}

bool is_step_longer(const SidesPoint& point) { return point.step.median > point.training->median; }

std::string rule_in_words(Mode mode) {
  switch (mode) {
    case Mode::overlap:
      return "A period lasts as long as the longer side.";
    case Mode::backward:
    case Mode::exact:
      return "If the step takes longer, the rest of it adds to the period.";
    case Mode::wait:
      break;
  }
  return "Training waits for the step, so a period lasts as long as both together.";
}

/// Returns " The copy of the parameters adds 5.3 ms to each period."; empty if nothing is copied.
std::string copy_in_words(const Plan& plan) {
  const Nanoseconds copy = schedule_of(plan.workload, plan.evidence.scale).parameters_ns;
  return copy == 0 ? ""
                   : format_text(" The copy of the parameters adds {} to each period.", print_duration(copy));
}

/// Says where the sides of divided homes cross.
std::string crossing_in_words(const Sides& sides) {
  const auto& points = sides.divided;
  const auto has_training = [](const SidesPoint& one) { return one.training.has_value(); };
  if (points.empty() || !std::ranges::all_of(points, has_training)) return "";
  const auto longer = std::ranges::count_if(points, is_step_longer);
  if (longer == 0 || longer == std::ssize(points)) {
    return format_text(
        " The lines of divided homes do not cross: the step is the {} side at every size that was measured.",
        longer == 0 ? "shorter" : "longer");
  }
  if (!std::ranges::is_partitioned(points, is_step_longer))
    return " Which side of divided homes is longer changes from size to size.";
  const auto more = points.begin() + longer;
  return format_text(
      " The lines of divided homes cross between pools of {} and {} threads: with fewer, training waits for "
      "the step.",
      std::prev(more)->pool_threads, more->pool_threads);
}

}  // namespace

Sides sides_of(const Plan& plan) { return {points_of(plan, false), points_of(plan, true)}; }

std::string training_in_words(const Workload& workload) {
  switch (workload.mode) {
    case Mode::backward:
      return "the backward of a training step";
    case Mode::exact:
      return "the forward of a training step";
    case Mode::overlap:
    case Mode::wait:
      break;
  }
  return print_count(workload.update_interval, "training step");
}

std::string sides_in_words(const Plan& plan, const Sides& sides) {
  const std::string crossing = plan.workload.mode == Mode::wait ? "" : crossing_in_words(sides);
  return rule_in_words(plan.workload.mode) + copy_in_words(plan) + crossing;
}

}  // namespace zf
