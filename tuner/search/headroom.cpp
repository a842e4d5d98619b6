#include "search/headroom.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "plan/period.hpp"
#include "search/decision.hpp"

namespace zf {
namespace {

/// Returns the largest factor from 1 up for which `loss` stays within kHeadroomLoss.
template <class Loss>
double largest_factor(Loss loss) {
  constexpr double kStep = 1.01;
  const int steps = static_cast<int>(std::log(kMostHeadroom) / std::log(kStep));
  for (int i = 0; i <= steps; ++i) {
    if (loss(std::pow(kStep, i)) > kHeadroomLoss) return std::pow(kStep, std::max(0, i - 1));
  }
  return kMostHeadroom;
}

/// Returns whether the candidate was measured and a plan can express it.
bool is_measured(const CandidateEvidence& candidate) {
  return is_eligible(candidate) && candidate.period_ns_median != 0;
}

}  // namespace

double loss_if(const Evidence& evidence, const Workload& workload, int chosen, double training, double step) {
  const Schedule schedule = schedule_of(workload, evidence.scale);
  double best = std::numeric_limits<double>::infinity();
  double mine = best;
  for (const CandidateEvidence& candidate : evidence.candidates) {
    if (!is_measured(candidate)) continue;
    const double period = period_of(training * static_cast<double>(candidate.training_ns_median),
                                    step * static_cast<double>(candidate.step_ns_median), schedule);
    if (candidate.id == chosen) mine = period;
    if (period < best) best = period;
  }
  return mine / best - 1;
}

std::optional<Headroom> headroom_of(const Evidence& evidence, const Workload& workload, int chosen) {
  bool has_training = false;
  int others = 0;
  for (const CandidateEvidence& candidate : evidence.candidates) {
    if (candidate.id == chosen) {
      has_training = candidate.training_ns_median > 0;
    } else if (is_measured(candidate)) {
      ++others;
    }
  }
  const auto loss = [&](double training, double step) {
    return loss_if(evidence, workload, chosen, training, step);
  };
  if (!has_training || others == 0 || loss(1, 1) > kHeadroomLoss) return std::nullopt;
  return Headroom{largest_factor([&](double factor) { return loss(1 / factor, 1); }),
                  largest_factor([&](double factor) { return loss(1, factor); })};
}

}  // namespace zf
