#include "fit/advice.hpp"

#include <algorithm>
#include <functional>

#include "base/format.hpp"

namespace zf {
namespace {

/// Adds the change if there is such a job and it saves enough.
void consider(const FitJob& job, std::uint64_t peak, const NodeLimits& limits, std::string what,
              const std::function<void(FitJob&)>& change, std::vector<Change>& found) {
  FitJob changed = job;
  change(changed);
  if (why_no_such_job(changed)) return;
  const Forecast forecast = forecast_of(changed);
  if (forecast.peak_bytes() >= peak || peak - forecast.peak_bytes() < peak / 100) return;
  found.push_back({.what = std::move(what),
                   .saves = peak - forecast.peak_bytes(),
                   .job = changed,
                   .is_enough = verdict_of(changed, forecast, limits).fits});
}

ModelSize scaled(const ModelSize& model, std::uint64_t params) {
  ModelSize size = usual_model(params);
  const double share = static_cast<double>(model.trainable) / static_cast<double>(model.params);
  size.trainable = std::min(params, static_cast<std::uint64_t>(share * static_cast<double>(params)));
  return size;
}

}  // namespace

std::vector<Change> changes_that_help(const FitJob& job, const NodeLimits& limits) {
  const std::uint64_t peak = forecast_of(job).peak_bytes();
  std::vector<Change> found;
  const auto offer = [&](std::string what, const std::function<void(FitJob&)>& change) {
    consider(job, peak, limits, std::move(what), change, found);
  };
  for (const auto& [state, name] : kEnumNames<StateFormat>) {
    if (state == job.state) continue;
    offer(format_text("--state {}", name), [state = state](FitJob& changed) { changed.state = state; });
  }
  offer("--load sharded: each rank makes its own part of the model (zero.Init, the meta device)",
        [](FitJob& changed) { changed.load = Load::sharded; });
  const bool is_zero = job.stage > 0 && job.stepper != Stepper::superoffload;
  for (int stage = 1; is_zero && stage <= 3; ++stage) {
    offer(format_text("--stage {}", stage), [stage](FitJob& changed) { changed.stage = stage; });
    offer(format_text("--stage {} with --load sharded", stage), [stage](FitJob& changed) {
      changed.stage = stage;
      changed.load = Load::sharded;
    });
  }
  if (job.pinned) offer("--pinned no: pageable memory", [](FitJob& changed) { changed.pinned = false; });
  if (job.stage > 0 && job.stepper != Stepper::native) {
    offer("--framework native: our optimizer, whose pinned memory is not rounded up", [](FitJob& changed) {
      changed.stepper = Stepper::native;
      if (changed.stepper == Stepper::native && changed.mode == Mode::backward) changed.mode = Mode::wait;
    });
    offer("--framework native --state bf16: our optimizer, moments in bf16", [](FitJob& changed) {
      changed.stepper = Stepper::native;
      changed.state = StateFormat::bf16;
      if (changed.mode == Mode::backward) changed.mode = Mode::wait;
    });
  }
  if (job.stepper == Stepper::native && job.mode == Mode::overlap)
    offer("--mode wait: one buffer of gradients instead of two",
          [](FitJob& changed) { changed.mode = Mode::wait; });
  if (job.stepper == Stepper::deepspeed_zenflow && job.mode == Mode::overlap)
    offer("--mode wait: no overlap_step", [](FitJob& changed) { changed.mode = Mode::wait; });
  if (job.stepper == Stepper::native && job.stage == 0 && job.device == Device::cpu)
    offer("--framework in-place: the job's own tensors, no second copy", [](FitJob& changed) {
      changed.stepper = Stepper::in_place;
      changed.mode = Mode::wait;
    });
  if (job.type == ParameterType::fp32)
    offer("--dtype bf16: parameters in bf16", [](FitJob& changed) { changed.type = ParameterType::bf16; });
  offer(format_text("--nodes {}: twice as many nodes", 2 * job.nodes),
        [](FitJob& changed) { changed.nodes *= 2; });
  std::stable_sort(found.begin(), found.end(),
                   [](const Change& a, const Change& b) { return a.saves > b.saves; });
  return found;
}

std::uint64_t largest_model(const FitJob& job, const NodeLimits& limits) {
  const auto fits = [&](std::uint64_t params) {
    FitJob other = job;
    other.model = scaled(job.model, params);
    return verdict_of(other, forecast_of(other), limits).fits;
  };
  if (!fits(1)) return 0;
  std::uint64_t low = 1, high = std::uint64_t{1} << 45;
  while (high - low > low / 1000) {
    const std::uint64_t middle = low + (high - low) / 2;
    (fits(middle) ? low : high) = middle;
    if (high - low <= 1) break;
  }
  return low;
}

}  // namespace zf
