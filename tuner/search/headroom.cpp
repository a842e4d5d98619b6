#include "search/headroom.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "plan/period.hpp"
#include "search/contest.hpp"

namespace zf {
namespace {

/// Returns the largest factor from 1 up for which `loss` stays within kHeadroomLoss.
template <class Loss>
double largest_factor(Loss loss) {
  constexpr double kStep = 1.01;
  double most = 1;
  for (int i = 1; most < kMostHeadroom; ++i) {
    const double factor = std::min(std::pow(kStep, i), kMostHeadroom);
    if (loss(factor) > kHeadroomLoss) break;
    most = factor;
  }
  return most;
}

/// Returns whether the candidate was measured and a plan can express it.
bool is_measured(const CandidateEvidence& candidate) {
  return is_eligible(candidate) && candidate.period_ns_median != 0;
}

/// Returns the factor by which the period of each candidate may be shorter than its estimate, at the lower
/// limit of its difference to the chosen one; nothing if the difference of a measured one is unknown.
std::optional<std::vector<double>> shortest_periods(const Evidence& evidence, const Workload& workload,
                                                    int chosen) {
  const auto& candidates = evidence.candidates;
  const Levels levels = contest_of(evidence, workload).levels;
  const auto index = static_cast<std::size_t>(
      std::find_if(candidates.begin(), candidates.end(), [&](const auto& one) { return one.id == chosen; }) -
      candidates.begin());
  std::vector<double> shortest(candidates.size(), 1);
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (i == index || !is_measured(candidates[i])) continue;
    const Difference difference = levels.difference(index, i);
    if (!difference.is_known()) return std::nullopt;
    shortest[i] = (1 + difference.low) / (1 + difference.estimate);
  }
  return shortest;
}

}  // namespace

double loss_if(const Evidence& evidence, const Workload& workload, int chosen, double training, double step,
               const std::vector<double>& shortest) {
  const Schedule schedule = schedule_of(workload, evidence.scale);
  double best = std::numeric_limits<double>::infinity();
  double mine = best;
  for (std::size_t i = 0; i < evidence.candidates.size(); ++i) {
    const CandidateEvidence& candidate = evidence.candidates[i];
    if (!is_measured(candidate)) continue;
    const double period = period_of(training * static_cast<double>(candidate.training_ns_median),
                                    step * static_cast<double>(candidate.step_ns_median), schedule) *
                          (shortest.empty() ? 1 : shortest[i]);
    if (candidate.id == chosen) mine = period;
    if (period < best) best = period;
  }
  return mine / best - 1;
}

std::optional<Headroom> headroom_of(const Evidence& evidence, const Workload& workload, int chosen) {
  if (evidence.noise_floor > kHeadroomLoss) return std::nullopt;
  bool has_training = false;
  int others = 0;
  for (const CandidateEvidence& candidate : evidence.candidates) {
    if (candidate.id == chosen) {
      has_training = candidate.training_ns_median > 0;
    } else if (is_measured(candidate)) {
      ++others;
    }
  }
  if (!has_training || others == 0) return std::nullopt;
  const auto shortest = shortest_periods(evidence, workload, chosen);
  if (!shortest) return std::nullopt;
  const auto loss = [&](double training, double step) {
    return loss_if(evidence, workload, chosen, training, step, *shortest);
  };
  if (loss(1, 1) > kHeadroomLoss) return std::nullopt;
  return Headroom{largest_factor([&](double factor) { return loss(1 / factor, 1); }),
                  largest_factor([&](double factor) { return loss(1, factor); })};
}

}  // namespace zf
