#include "fit/forecast.hpp"

#include <algorithm>
#include <cassert>

#include "base/format.hpp"
#include "fit/formulas.hpp"
#include "fit/measured_kinds.hpp"

namespace zf {
namespace {

RankMemory memory_of_rank(const FitJob& job) {
  switch (job.stepper) {
    case StepMethod::in_place:
    case StepMethod::torch:
      return memory_in_place(job);
    case StepMethod::fsdp2:
    case StepMethod::fsdp2_in_place:
      return memory_of_fsdp2(job);
    case StepMethod::native:
      if (job.stage == 0) return memory_of_arena(job);
      break;
    case StepMethod::deepspeed_zenflow:
      if (job.mode == Mode::overlap) return memory_of_zenflow(job);
      break;
    case StepMethod::superoffload:
      return memory_of_superoffload(job);
    case StepMethod::deepspeed_offload:
      break;
  }
  return job.stage == 3 ? memory_of_zero_3(job) : memory_of_zero_1_2(job);
}

}  // namespace

FitPhase MemoryForecast::worst() const {
  const auto most = std::max_element(phases.begin(), phases.end(),
                                     [](const auto& a, const auto& b) { return a.bytes < b.bytes; });
  return static_cast<FitPhase>(most - phases.begin());
}

MemoryForecast forecast_of(const FitJob& job) {
  assert(!why_no_such_job(job));
  const RankMemory rank = memory_of_rank(job);
  const auto ranks = static_cast<std::uint64_t>(job.ranks);
  MemoryForecast forecast;
  for (const Instant& instant : rank.instants) {
    PhaseMemory& phase = forecast.phases[static_cast<std::size_t>(instant.phase)];
    PhaseMemory found;
    for (const auto& [item, bytes] : instant.parts)
      found.items[static_cast<std::size_t>(item)] += bytes * ranks;
    found.items[static_cast<std::size_t>(FitItem::process)] = job.process_bytes * ranks;
    if (instant.phase == FitPhase::checkpoint)
      found.items[static_cast<std::size_t>(FitItem::conversion)] += rank.saved_once_bytes;
    for (const std::uint64_t bytes : found.items) found.bytes += bytes;
    if (found.bytes > phase.bytes || phase.bytes == 0) phase = found;
  }
  forecast.pinned_bytes = rank.pinned_bytes * ranks;
  forecast.shared_memory_bytes = rank.shared_memory_bytes * ranks;
  forecast.basis = what_is_from_source(job) ? TermBasis::from_source : TermBasis::measured;
  return forecast;
}

std::optional<std::string> what_is_from_source(const FitJob& job) {
  if (job.stepper == StepMethod::superoffload)
    return "SuperOffload was not run: its figures are from its source.";
  if (job.stepper == StepMethod::deepspeed_zenflow)
    return "ZenFlow's memory was not measured: its figures are from its source.";
  if (job.device == Device::gpu)
    return "These formulas were measured without a GPU. What is different with one (pinned memory, and when "
           "the model leaves host memory) is from source.";
  const auto measured = measured_kinds();
  const bool is_measured = std::find(measured.begin(), measured.end(), kind_of(job)) != measured.end();
  if (job.model.trainable < job.model.params && !is_measured)
    return "No job of this kind with frozen parameters was measured: what they change is from source.";
  if (job.type == ParameterType::fp16)
    return "No fp16 job was measured: its figures are those of a bf16 job.";
  if (job.pinned) return "No job with pinned memory was measured: what pinning adds is from source.";
  if (job.load == Load::sharded)
    return "No job whose ranks make a part of the model each was measured: its start is from source.";
  if (job.nodes > 1) return "No job on several nodes was measured: how its parts get smaller is from source.";
  if (job.has(FitExtra::accumulation)) return "No accumulation was measured: its sums are from source.";
  if (!is_measured)
    return format_text("{} with {} was not measured: the figures are from source.", in_words(job),
                       job.ranks > 1 ? "several ranks" : "one rank");
  return std::nullopt;
}

}  // namespace zf
