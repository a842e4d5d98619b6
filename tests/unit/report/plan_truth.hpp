// Works out from the samples of a plan, once more, how its splits compare.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/format.hpp"
#include "compare/levels.hpp"
#include "compare/statistics.hpp"
#include "plan/period.hpp"
#include "plan/plan.hpp"

namespace zf {

/// What the samples of a plan say, worked out here once more.
class PlanTruth {
 public:
  explicit PlanTruth(const Plan& plan) : plan_(plan) {
    for (const Sample& sample : plan.evidence.samples) {
      const bool after = plan.evidence.estimate_round >= 0 && sample.round >= plan.evidence.estimate_round;
      Sides& sides = visits_[after][{sample.round, position(plan.evidence, sample.candidate)}];
      sides.steps.push_back(static_cast<double>(sample.times.step_ns));
      sides.trainings.push_back(static_cast<double>(sample.times.training_ns));
    }
  }

  bool by_trial() const { return plan_.trial.has_value(); }

  const std::string& chosen() const {
    if (by_trial()) return plan_.trial->candidates[static_cast<std::size_t>(plan_.trial->winner)].label;
    return plan_.evidence.candidates[position(plan_.evidence, plan_.choice.candidate)].label;
  }

  /// Returns how much longer the split of one label takes than another one's, after the choice or before.
  Difference difference(const std::string& name, const std::string& base, bool after) const {
    std::vector<Visit> visits;
    if (by_trial()) {
      const auto& candidates = plan_.trial->candidates;
      for (std::size_t i = 0; i < candidates.size(); ++i) {
        for (std::size_t run = 0; run < candidates[i].runs.size(); ++run) {
          const double value = median(candidates[i].runs[run]);
          visits.push_back({i, static_cast<int>(run), plan_.trial->higher_is_better ? 1 / value : value});
        }
      }
      return Levels(visits, candidates.size()).difference(index(candidates, base), index(candidates, name));
    }
    const auto& candidates = plan_.evidence.candidates;
    return Levels(visits_of(after), candidates.size())
        .difference(index(candidates, base), index(candidates, name));
  }

  /// Returns the period of a split by the visits after the choice, or before; infinity if it has none.
  double period_ns(const std::string& label, bool after) const {
    const auto& candidates = plan_.evidence.candidates;
    return Levels(visits_of(after), candidates.size()).of(index(candidates, label));
  }

  /// Returns between which ratios that of the step to training is, by the medians of such visits of a split.
  std::pair<double, double> step_by_training(const std::string& label, bool after) const {
    std::vector<double> steps;
    std::vector<double> trainings;
    for (const auto& [key, sides] : visits_[after]) {
      if (plan_.evidence.candidates[key.second].label != label) continue;
      steps.push_back(typical(sides.steps));
      trainings.push_back(typical(sides.trainings));
    }
    return {quantile(steps, 0) / quantile(trainings, 1), quantile(steps, 1) / quantile(trainings, 0)};
  }

  /// Returns how many periods of a split were measured, after the choice or before.
  std::size_t count(const std::string& label, bool after) const {
    std::size_t count = 0;
    for (const auto& [key, sides] : visits_[after]) {
      if (plan_.evidence.candidates[key.second].label == label) count += sides.steps.size();
    }
    return count;
  }

 private:
  std::vector<Visit> visits_of(bool after) const {
    const Schedule schedule = schedule_of(plan_.workload, plan_.evidence.scale);
    std::vector<Visit> visits;
    for (const auto& [key, sides] : visits_[after]) {
      const double period = period_of(typical(sides.trainings), typical(sides.steps), schedule);
      visits.push_back({key.second, key.first, period});
    }
    return visits;
  }

  static std::size_t position(const Evidence& evidence, int id) {
    for (std::size_t i = 0; i < evidence.candidates.size(); ++i) {
      if (evidence.candidates[i].id == id) return i;
    }
    ADD_FAILURE() << "no candidate " << id;
    return 0;
  }

  template <class Candidates>
  static std::size_t index(const Candidates& candidates, const std::string& label) {
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      if (candidates[i].label == label) return i;
    }
    ADD_FAILURE() << "no split " << label;
    return 0;
  }

  const Plan& plan_;
  struct Sides {
    std::vector<double> steps;
    std::vector<double> trainings;
  };

  /// Returns the smaller one in the middle; of fewer than four, the shortest.
  static double typical(std::vector<double> times) {
    std::sort(times.begin(), times.end());
    return times[times.size() < 4 ? 0 : (times.size() - 1) / 2];
  }

  std::map<std::pair<int, std::size_t>, Sides> visits_[2];  ///< by round and candidate
};

/// Returns "+9.4" for 0.094.
inline std::string percent(double relative) {
  const double tenths = std::round(1000 * relative);
  if (tenths >= 10'000) return "above +1000";
  return format_text("{:+.1f}", tenths == 0 ? 0.0 : tenths / 10);
}

/// Returns the figures of a difference, of times or of a throughput.
inline std::string figures_for(Difference longer, bool of_rates) {
  if (of_rates) longer = {1 / (1 + longer.estimate) - 1, 1 / (1 + longer.high) - 1, 1 / (1 + longer.low) - 1};
  return format_text("{} % ({} to {} %)", percent(longer.estimate), percent(longer.low),
                     percent(longer.high));
}

}  // namespace zf
