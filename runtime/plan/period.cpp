#include "plan/period.hpp"

#include <algorithm>
#include <cmath>

namespace zf {
namespace {

/// Returns which part of a language model of that many parameters its embedding has: an estimate. Vocabulary
/// times width grows more slowly than the model. Fitted to Qwen2.5 (0.5B: 28 %, 1.5B: 15 %, 3B: 10 %, 7B:
/// 7 %; config.json of each); Llama 3 has 6.5 % at 8B and 1.5 % at 70B, the fit 6.0 % and 1.8 %.
double embedding_share(std::uint64_t params) {
  constexpr double kSmallest =
      0.28;  // of the smallest model of the fit; smaller ones have smaller vocabularies
  constexpr double kSmallestParams = 494e6;
  constexpr double kExponent = 0.55;
  return kSmallest * std::min(1.0, std::pow(kSmallestParams / static_cast<double>(params), kExponent));
}

}  // namespace

Schedule schedule_of(const Workload& workload, double scale) {
  Schedule schedule;
  schedule.mode = workload.mode;
  schedule.update_interval = workload.update_interval;
  schedule.step_factor = workload.step_factor.value_or(1);
  if (!workload.training) return schedule;
  const TrainingDemand& demand = *workload.training;
  schedule.forward_share = demand.forward_share.value_or(kForwardShare);
  if (workload.mode == Mode::exact) {
    // The parameters follow the step layer by layer, and hide behind the forward with it.
    schedule.first_group_share = demand.first_group_share.value_or(embedding_share(workload.params));
    schedule.last_forward_share = demand.last_forward_share.value_or(0);
    schedule.last_gradient_ns =
        std::llround(scale * static_cast<double>(demand.last_gradient_ns.value_or(0)));
  } else if (demand.parameter_bytes != 0) {
    const double seconds =
        static_cast<double>(demand.parameter_bytes) / static_cast<double>(demand.copy_bytes_per_s);
    schedule.parameters_ns = std::llround(scale * seconds * static_cast<double>(kSecondNs));
  }
  return schedule;
}

}  // namespace zf
