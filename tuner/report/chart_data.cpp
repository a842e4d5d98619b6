#include "report/chart_data.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "base/format.hpp"
#include "base/text.hpp"
#include "compare/statistics.hpp"
#include "plan/json_fields.hpp"
#include "report/explain.hpp"
#include "search/decision.hpp"
#include "search/headroom.hpp"
#include "search/period_levels.hpp"

namespace zf {
namespace {

/// The largest number of bars. They fit on one page of paper together with the chosen split and the controls.
constexpr std::size_t kMaxBars = 20;

/// Returns the values of one candidate's samples of the search, as the table has them. Leaves out 0, which
/// stands for "not measured".
template <class Value>
std::vector<double> values_of(const Evidence& evidence, int id, Value value) {
  std::vector<double> values;
  for (const Sample& sample : evidence.samples) {
    if (sample.candidate != id || came_after_choice(evidence, sample)) continue;
    if (value(sample.times) > 0) values.push_back(value(sample.times));
  }
  return values;
}

Object quartiles(const std::vector<double>& values) {
  if (values.empty()) return nullptr;
  return {quantile(values, 0.25), median(values), quantile(values, 0.75)};
}

/// Returns the candidates to draw, shortest period first. At most kMaxBars of them are neither chosen nor a
/// control.
std::vector<CandidateEvidence> bars_of(const Plan& plan) {
  std::vector<CandidateEvidence> candidates = plan.evidence.candidates;
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const auto& a, const auto& b) { return a.period_ns_median < b.period_ns_median; });
  std::vector<CandidateEvidence> bars;
  for (const CandidateEvidence& candidate : candidates) {
    const bool kept = candidate.control != Control::none || candidate.id == plan.choice.candidate;
    if (kept || bars.size() < kMaxBars) bars.push_back(candidate);
  }
  return bars;
}

Object sides_of(const Plan& plan, const TimeUnit& unit) {
  const auto in_unit = [&](Nanoseconds ns) { return static_cast<double>(ns) / unit.ns; };
  const double factor = plan.workload.step_factor.value_or(1);
  const auto step = [&](const SplitSample& times) { return factor * in_unit(times.step_ns); };
  const auto training = [&](const SplitSample& times) {
    return in_unit(plan.workload.update_interval * times.training_ns);
  };
  Object sides = Object::array();
  for (const CandidateEvidence& candidate : bars_of(plan)) {
    sides.push_back({{"label", one_line(candidate.label)},
                     {"chosen", candidate.id == plan.choice.candidate},
                     {"step", quartiles(values_of(plan.evidence, candidate.id, step))},
                     {"training", quartiles(values_of(plan.evidence, candidate.id, training))}});
  }
  return sides;
}

/// Returns the mark of the chosen pool.
Object marks_of(const Plan& plan) {
  Object marks = Object::array();
  for (const CandidateEvidence& candidate : plan.evidence.candidates) {
    if (candidate.id != plan.choice.candidate) continue;
    marks.push_back(
        {{"x", candidate.pool_threads}, {"text", format_text("chosen: {}", candidate.pool_threads)}});
  }
  return marks;
}

Object bandwidth_of(const Plan& plan) {
  const auto gb_per_s = [&](Nanoseconds ns) { return ns == 0 ? 0 : step_bytes_per_s(plan, ns) / 1e9; };
  const auto step = [&](const SplitSample& times) { return gb_per_s(times.step_ns); };
  const auto roofline = [&](const SplitSample& times) { return gb_per_s(times.roofline_ns); };
  Object points = Object::array();
  std::map<int, double> highest;  // the highest roofline of all placements, by pool threads
  for (const CandidateEvidence& candidate : plan.evidence.candidates) {
    if (!is_eligible(candidate)) continue;
    points.push_back({{"x", candidate.pool_threads},
                      {"y", quartiles(values_of(plan.evidence, candidate.id, step))},
                      {"label", one_line(candidate.label)},
                      {"placement", name_of(candidate.placement)}});
    const auto rooflines = values_of(plan.evidence, candidate.id, roofline);
    if (rooflines.empty()) continue;
    double& best = highest[candidate.pool_threads];
    best = std::max(best, median(rooflines));
  }
  Object line = Object::array();
  for (const auto& [threads, best] : highest) line.push_back({{"x", threads}, {"y", best}});
  return {{"points", points}, {"roofline", line}, {"marks", marks_of(plan)}};
}

/// Returns what the plan loses against the best measured split, in per cent, if training is faster or the
/// step longer than told; null if the plan has no headroom.
Object headroom_of(const Plan& plan) {
  if (!plan.choice.headroom) return nullptr;
  constexpr double kMost = 4;
  constexpr double kStep = 1.05;
  Object training = Object::array();
  Object step = Object::array();
  const int steps = static_cast<int>(std::log(kMost) / std::log(kStep));
  for (int i = 0; i <= steps; ++i) {
    const double factor = std::pow(kStep, i);
    const auto loss = [&](double of_training, double of_step) {
      return 100 * loss_if(plan.evidence, plan.workload, plan.choice.candidate, of_training, of_step);
    };
    training.push_back({{"x", factor}, {"y", loss(1 / factor, 1)}});
    step.push_back({{"x", factor}, {"y", loss(1, factor)}});
  }
  return {{"training", training}, {"step", step}, {"limit", 100 * kHeadroomLoss}};
}

}  // namespace

std::size_t bars_shown(const Plan& plan) { return bars_of(plan).size(); }

std::string chart_data(const Plan& plan) {
  const TimeUnit unit = unit_for(fastest_of(plan.evidence).period_ns_median);
  const Object data = {{"unit", unit.name},
                       {"interval", plan.workload.update_interval},
                       {"sides", sides_of(plan, unit)},
                       {"bandwidth", bandwidth_of(plan)},
                       {"headroom", headroom_of(plan)}};
  return print_json_line(data);
}

}  // namespace zf
