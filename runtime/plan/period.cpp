#include "plan/period.hpp"

#include <cmath>

namespace zf {

Schedule schedule_of(const Workload& workload, double scale) {
  Schedule schedule{workload.mode, workload.update_interval, kForwardShare, 0,
                    workload.step_factor.value_or(1)};
  if (!workload.training) return schedule;
  const TrainingDemand& demand = *workload.training;
  schedule.forward_share = demand.forward_share.value_or(kForwardShare);
  // In mode exact the parameters follow the step layer by layer, and hide behind the forward with it.
  if (workload.mode != Mode::exact && demand.parameter_bytes != 0) {
    const double seconds =
        static_cast<double>(demand.parameter_bytes) / static_cast<double>(demand.copy_bytes_per_s);
    schedule.parameters_ns = std::llround(scale * seconds * static_cast<double>(kSecondNs));
  }
  return schedule;
}

}  // namespace zf
