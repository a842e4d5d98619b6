#include "fit/workload_job.hpp"

#include "base/format.hpp"
#include "fit/forecast.hpp"
#include "text/units.hpp"

namespace zf {

FitJob least_job_of(const Workload& workload, StateFormat state) {
  FitJob job;
  job.model = usual_model(std::max<std::uint64_t>(workload.params, 1));
  job.ranks = workload.ranks;
  job.mode = workload.mode;
  job.state = state;
  switch (workload.framework) {
    case Framework::deepspeed_offload:
      job.stepper = StepMethod::deepspeed_offload;
      job.stage = 2;
      job.mode = Mode::wait;
      break;
    case Framework::deepspeed_zenflow:
      job.stepper = StepMethod::deepspeed_zenflow;
      job.stage = 2;
      break;
    case Framework::superoffload:
      job.stepper = StepMethod::superoffload;
      job.stage = 3;
      break;
    case Framework::torch:  // each rank has parameters of its own: `params` counts all of them
      job.stepper = StepMethod::in_place;
      job.device = Device::cpu;
      job.mode = Mode::wait;
      job.ranks = 1;
      break;
    case Framework::native:
    case Framework::unknown:
      job.stepper = StepMethod::native;
      job.ranks = 1;
      break;
  }
  if (why_no_such_job(job)) {  // a mode or a state format that does not go with the framework
    job.state = StateFormat::fp32;
    job.mode = job.stepper == StepMethod::superoffload ? Mode::backward : Mode::wait;
  }
  FitJob in_parts = job;
  in_parts.load = Load::sharded;
  return why_no_such_job(in_parts) ? job : in_parts;
}

std::optional<std::string> memory_shortage(const Workload& workload, StateFormat state,
                                           const NodeLimits& limits) {
  const FitJob job = least_job_of(workload, state);
  const MemoryForecast forecast = forecast_of(job);
  const FitVerdict verdict = verdict_of(job, forecast, limits);
  if (verdict.fits) return std::nullopt;
  const std::string params = print_quantity(workload.params);
  if (verdict.needed > verdict.capacity) {
    return format_text("{} parameters need at least {} of host memory {}, and the job may use {} ({})",
                       params, print_memory(verdict.needed), phase_in_words(verdict.phase),
                       print_memory(verdict.capacity), limits.capacity.limit);
  }
  return format_text("{} parameters: {}", params, shared_memory_shortage(forecast, limits.more).value());
}

}  // namespace zf
