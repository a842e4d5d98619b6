// What would let a job need less memory, and how large a model may be.
#include "fit/fit_report.hpp"

#include <algorithm>
#include <functional>

#include "base/format.hpp"

namespace zf {
namespace {

/// What the changes of a job are compared with, and those that help.
struct Offers {
  const FitJob& job;
  const NodeLimits& limits;
  std::uint64_t peak;
  std::vector<Change> found = {};

  /// Adds a change if there is such a job, and it saves enough, and more than another one does. Returns what
  /// it saves; 0 if it was not added.
  std::uint64_t add(std::string what, const std::function<void(FitJob&)>& change, std::uint64_t other = 0) {
    FitJob changed = job;
    change(changed);
    if (why_no_such_job(changed)) return 0;
    const MemoryForecast forecast = forecast_of(changed);
    const std::uint64_t saves = peak - std::min(peak, forecast.peak_bytes());
    if (saves < std::max<std::uint64_t>(peak / 100, 1) || saves <= other) return 0;
    found.push_back({.what = std::move(what),
                     .saves = saves,
                     .job = changed,
                     .is_enough = verdict_of(changed, forecast, limits).fits});
    return saves;
  }
};

/// Gives the job another stage of ZeRO, and takes away what that stage has not.
void set_stage(FitJob& job, int stage) {
  job.stage = stage;
  job.set(FitExtra::host_flatten, job.has(FitExtra::host_flatten) && stage < 3);
  job.set(FitExtra::offload_param, job.has(FitExtra::offload_param) && stage == 3);
}

ModelSize scaled(const ModelSize& model, std::uint64_t params) {
  ModelSize size = usual_model(params);
  const double share = static_cast<double>(model.trainable) / static_cast<double>(model.params);
  size.trainable = std::min(params, static_cast<std::uint64_t>(share * static_cast<double>(params)));
  return size;
}

}  // namespace

std::vector<Change> changes_that_help(const FitJob& job, const NodeLimits& limits) {
  Offers offers{job, limits, forecast_of(job).peak_bytes()};
  for (const auto& [state, name] : kEnumNames<StateFormat>) {
    if (state == job.state) continue;
    offers.add(format_text("--state {}", name), [state = state](FitJob& changed) { changed.state = state; });
  }
  offers.add("--load sharded: each rank makes its own part of the model (zero.Init, the meta device)",
             [](FitJob& changed) { changed.load = Load::sharded; });
  if (job.stage > 0 && job.stepper != StepMethod::superoffload) {
    std::uint64_t saved = 0;
    for (int stage = 1; stage <= 3; ++stage)
      saved = offers.add(format_text("--stage {}", stage),
                         [stage](FitJob& changed) { set_stage(changed, stage); });
    offers.add(
        "--stage 3 with --load sharded",
        [](FitJob& changed) {
          set_stage(changed, 3);
          changed.load = Load::sharded;
        },
        saved);
  }
  if (job.pinned) offers.add("--pinned no: pageable memory", [](FitJob& changed) { changed.pinned = false; });
  if (job.stage > 0 && job.stepper != StepMethod::native) {
    const auto take_native = [](FitJob& changed) {
      changed.stepper = StepMethod::native;
      if (changed.mode == Mode::backward) changed.mode = Mode::wait;
    };
    offers.add("--framework native: our optimizer does not round up pinned memory", take_native);
    offers.add("--framework native --state bf16: our optimizer, moments in bf16", [&](FitJob& changed) {
      take_native(changed);
      changed.state = StateFormat::bf16;
    });
  }
  if (job.stepper == StepMethod::native && job.mode == Mode::overlap)
    offers.add("--mode wait: one buffer of gradients instead of two",
               [](FitJob& changed) { changed.mode = Mode::wait; });
  if (job.stepper == StepMethod::deepspeed_zenflow && job.mode == Mode::overlap)
    offers.add("--mode wait: no overlap_step", [](FitJob& changed) { changed.mode = Mode::wait; });
  if (job.stepper == StepMethod::native && job.stage == 0 && job.device == Device::cpu)
    offers.add("--framework in-place: the job's own tensors, no second copy", [](FitJob& changed) {
      changed.stepper = StepMethod::in_place;
      changed.mode = Mode::wait;
    });
  if (job.stepper == StepMethod::in_place && job.mode == Mode::wait)
    offers.add("--mode backward: AdamW(overlap=\"backward\") frees each gradient, without clipping",
               [](FitJob& changed) { changed.mode = Mode::backward; });
  if (job.type == ParameterType::fp32)
    offers.add("--dtype bf16: parameters in bf16",
               [](FitJob& changed) { changed.type = ParameterType::bf16; });
  offers.add(format_text("--nodes {}: twice as many nodes", 2 * job.nodes),
             [](FitJob& changed) { changed.nodes *= 2; });
  std::stable_sort(offers.found.begin(), offers.found.end(),
                   [](const Change& a, const Change& b) { return a.saves > b.saves; });
  return std::move(offers.found);
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
