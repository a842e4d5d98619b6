#include "search/preferred_ties.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "search/judgement.hpp"

namespace zf {
namespace {

/// A split that loses at most this if the job is not as told is safe.
constexpr double kSafe = 0.05;

/// Returns the best of the divided homes if one ties with the best of all and the sides overlap, else the
/// best.
const TriedSplit& preferred_of_kind(const Families& families, double longest) {
  const TriedSplit* found = nullptr;
  for (const TriedSplit& one : families.tried()) {
    const SplitShape& shape = one.split.shape;
    if (shape.control == Control::unbound || shape.shared || one.period_ns > longest) continue;
    if (found == nullptr || one.period_ns < found->period_ns) found = &one;
  }
  return found == nullptr || families.schedule().mode == Mode::wait ? *families.best() : *found;
}

/// A divided split, and how it would do.
struct Tie {
  SplitShape shape;
  Forecast times;
  double loss = 0;  ///< Contender::loss_if_wrong
};

/// Returns the divided split that loses least if the job is not as told, of those whose period is at most
/// `longest`. Looks at all sizes of all families that were tried, by the forecasts.
std::optional<Tie> safest_tie(const Families& families, double longest) {
  std::vector<Tie> ties;
  for (const SplitShape& family : families.all()) {
    const std::vector<Point> points = families.points_of(family);
    if (family.shared || points.empty()) continue;
    for (int pool = 1; pool <= families.most_of(family); ++pool)
      ties.push_back({resized(family, pool), families.forecast(family, points, pool)});
  }
  for (const auto& [training, step] : kWaysToBeWrong) {
    const auto wrong = [&, in_training = training, in_step = step](const Forecast& times) {
      return families.period({in_step * times.step_ns, in_training * times.training_ns});
    };
    double best = std::numeric_limits<double>::infinity();
    for (const Tie& tie : ties) best = std::min(best, wrong(tie.times));
    for (const TriedSplit& one : families.tried()) {
      if (one.split.shape.control != Control::unbound)
        best = std::min(best, wrong({one.step_ns, one.training_ns}));
    }
    for (Tie& tie : ties) tie.loss = std::max(tie.loss, wrong(tie.times) / best - 1);
  }
  std::erase_if(ties, [&](const Tie& tie) { return families.period(tie.times) > longest; });
  const auto safest =
      std::min_element(ties.begin(), ties.end(), [](const Tie& a, const Tie& b) { return a.loss < b.loss; });
  if (safest == ties.end()) return std::nullopt;
  return *safest;
}

/// Returns the divided splits that were not tried and are expected to be the best if the job is not as told:
/// one for each way to be wrong. What a split loses then is told against the best that was measured, so they
/// show how much it is.
std::vector<SplitShape> best_if_wrong(const Families& families) {
  std::vector<SplitShape> shapes;
  for (const auto& [training, step] : kWaysToBeWrong) {
    std::optional<SplitShape> best;
    double least = std::numeric_limits<double>::infinity();
    for (const SplitShape& family : families.all()) {
      const std::vector<Point> points = families.points_of(family);
      if (family.shared || points.empty()) continue;
      for (int pool = 1; pool <= families.most_of(family); ++pool) {
        if (!families.is_even(family, pool)) continue;
        const Forecast times = families.forecast(family, points, pool);
        const double period = families.period({step * times.step_ns, training * times.training_ns});
        if (period >= least) continue;
        least = period;
        best = resized(family, pool);
      }
    }
    if (best && !families.is_tried(families.split(*best))) shapes.push_back(*best);
  }
  return shapes;
}

/// Returns divided splits that could tie with the best one and lose less if the job is not as told: the
/// safest tie, or if that was tried and is not safe, its size in the families that were not tried.
std::vector<SplitShape> safer_ties(const Families& families, double longest, double tie) {
  const auto is_tried = [&](const Tie& one) { return families.is_tried(families.split(one.shape)); };
  auto safest = safest_tie(families, longest);
  if (safest && !is_tried(*safest)) return {safest->shape};
  const bool at_cliff = !safest || safest->loss > kCliff;
  if (at_cliff) safest = safest_tie(families, families.best()->period_ns * (1 + kWiderTie * tie));
  if (!safest) return {};
  if (!is_tried(*safest)) return {safest->shape};
  std::vector<SplitShape> shapes;
  if (at_cliff) shapes = best_if_wrong(families);
  for (const SplitShape& family : families.all()) {
    if (safest->loss <= kSafe || family.shared || !families.points_of(family).empty()) continue;
    if (safest->shape.pool_cores <= families.most_of(family))
      shapes.push_back(resized(family, safest->shape.pool_cores));
  }
  return shapes;
}

}  // namespace

std::vector<SplitShape> preferred_ties(const Families& families, double tie) {
  const double longest = families.best()->period_ns * (1 + tie);
  const TriedSplit& preferred = preferred_of_kind(families, longest);
  const SplitShape& family = preferred.split.shape;
  const std::vector<Point> points = families.points_of(family);
  const bool hides = window_of(preferred.training_ns, families.schedule()) > 0 && !family.shared;
  if (hides) {
    for (int pool = 1; pool <= families.most_of(family); ++pool) {
      if (!families.is_even(family, pool)) continue;
      const Forecast times = families.forecast(family, points, pool);
      if (kStepHeadroom * families.schedule().step_factor * times.step_ns >
          window_of(times.training_ns, families.schedule()))
        continue;
      if (families.period(times) > longest) break;
      return {resized(family, pool)};
    }
    return safer_ties(families, longest, tie);
  }
  const bool shortest_step = families.schedule().mode == Mode::wait || family.shared;
  int below = 0;
  for (const Point& point : points) {
    if (families.period({point.step_ns, point.training_ns}) <= longest) {
      if (shortest_step && below != 0) return {};
      if (point.pool - below < 2) return {};
      return {resized(family, below + (point.pool - below) / 2)};
    }
    below = point.pool;
  }
  return {};
}

}  // namespace zf
