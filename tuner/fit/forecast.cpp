#include "fit/forecast.hpp"

#include <algorithm>
#include <cassert>
#include <sstream>
#include <utility>

#include "base/format.hpp"
#include "fit/formulas.hpp"

namespace zf {
namespace {

/// Returns the phases that a moment is of. A resumed job trains, too.
std::vector<FitPhase> phases_of(Moment moment) {
  if (moment <= Moment::made) return {FitPhase::start};
  if (moment == Moment::save) return {FitPhase::checkpoint};
  if (moment <= Moment::reduce) return {FitPhase::steady, FitPhase::resume};
  return {FitPhase::resume};
}

/// Returns the items of a moment, of all ranks of this node.
PhaseMemory memory_at(Moment moment, const std::vector<FormulaRow>& rows, const FitJob& job) {
  PhaseMemory found;
  const auto add = [&](FitItem item, std::uint64_t bytes) {
    found.items[static_cast<std::size_t>(item)] += bytes;
    found.bytes += bytes;
  };
  const auto ranks = static_cast<std::uint64_t>(job.ranks);
  for (const FormulaRow& row : rows) {
    if (row.first <= moment && moment <= row.last) add(row.item, bytes_of(row.bytes, job) * ranks);
    if (row.first == Moment::once && moment == Moment::save) add(row.item, bytes_of(row.bytes, job));
  }
  return found;
}

constexpr const char* kAllStates = "fp32:fp32 fp32:bf16 bf16:fp32 bf16:bf16 bf16:split bf16:bf16+split";

constexpr auto kRuns = std::to_array<std::pair<const char*, const char*>>({
    {"in-place 0 wait", kAllStates},
    {"in-place 0 wait", "bf16:fp32:ranks"},
    {"native 0 exact", kAllStates},
    {"native 0 overlap", kAllStates},
    {"native 1 wait", "bf16:fp32"},
    {"native 2 wait", "bf16:fp32 bf16:bf16"},
    {"native 3 wait", "bf16:fp32"},
    {"torch 0 wait", "fp32:fp32 bf16:fp32"},
    {"deepspeed-offload 1 wait", "bf16:fp32 bf16:fp32:ranks bf16:fp32:sums"},
    {"deepspeed-offload 2 wait", "fp32:fp32 bf16:fp32 bf16:fp32:ranks bf16:fp32:frozen bf16:fp32:sums"},
    {"deepspeed-offload 3 wait", "fp32:fp32 bf16:fp32 bf16:fp32:ranks bf16:fp32:sums"},
    {"fsdp2 0 wait", "fp32:fp32 fp32:fp32:ranks bf16:fp32"},
    {"fsdp2-in-place 0 wait", "fp32:fp32 bf16:fp32 bf16:bf16"},
});

}  // namespace

FitPhase MemoryForecast::worst() const {
  const auto most = std::max_element(phases.begin(), phases.end(),
                                     [](const auto& a, const auto& b) { return a.bytes < b.bytes; });
  return static_cast<FitPhase>(most - phases.begin());
}

MemoryForecast forecast_of(const FitJob& job) {
  assert(!why_no_such_job(job));
  const std::vector<FormulaRow> rows = formulas_of(job);
  MemoryForecast forecast;
  const std::uint64_t reserve = job.process_bytes * static_cast<std::uint64_t>(job.ranks);
  for (int i = 0; i <= static_cast<int>(Moment::load); ++i) {
    const auto moment = static_cast<Moment>(i);
    PhaseMemory found = memory_at(moment, rows, job);
    found.items[static_cast<std::size_t>(FitItem::process)] = reserve;
    found.bytes += reserve;
    for (const FitPhase each : phases_of(moment)) {
      PhaseMemory& phase = forecast.phases[static_cast<std::size_t>(each)];
      if (found.bytes > phase.bytes) phase = found;
    }
  }
  forecast.pinned_bytes = memory_at(Moment::pinned, rows, job).bytes;
  forecast.shared_memory_bytes = memory_at(Moment::shared, rows, job).bytes;
  return forecast;
}

std::string kind_of(const FitJob& job) {
  return format_text("{} {} {} {}:{}{}{}{}", name_of(job.stepper), job.stage, name_of(job.mode),
                     name_of(job.type), name_of(job.state), job.ranks > 1 ? ":ranks" : "",
                     job.model.trainable < job.model.params ? ":frozen" : "",
                     job.has(FitExtra::fp32_accumulation) ? ":sums" : "");
}

std::vector<std::string> measured_kinds() {
  std::vector<std::string> kinds;
  for (const auto& [job, runs] : kRuns) {
    std::istringstream words(runs);
    for (std::string word; words >> word;) kinds.push_back(format_text("{} {}", job, word));
  }
  return kinds;
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
    return "No job with ranks that make a part of the model each was measured: its start is from source.";
  if (job.nodes > 1) return "No job on several nodes was measured: how its parts get smaller is from source.";
  if (job.has(FitExtra::accumulation)) return "No accumulation was measured: its sums are from source.";
  if (!is_measured)
    return format_text("{} with {} was not measured: the figures are from source.", in_words(job),
                       job.ranks > 1 ? "several ranks" : "one rank");
  return std::nullopt;
}

}  // namespace zf
