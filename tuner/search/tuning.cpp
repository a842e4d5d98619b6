#include "search/tuning.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.hpp"
#include "base/format.hpp"
#include "homes/deepspeed_homes.hpp"
#include "machine/fingerprint.hpp"
#include "machine/rank_count.hpp"
#include "machine/rank_gpus.hpp"
#include "measure/bandwidth.hpp"
#include "measure/machine_meter.hpp"
#include "measure/training_demand.hpp"
#include "measure/working_set_size.hpp"
#include "measure/workload_file.hpp"
#include "os/environment.hpp"
#include "planning/assemble.hpp"
#include "search/choose.hpp"
#include "search/decision.hpp"
#include "search/restriction_cost.hpp"
#include "simulate/simulated_job.hpp"
#include "simulate/simulated_meter.hpp"
#include "text/command_line.hpp"

namespace zf {
namespace {

/// With --for deepspeed, the share of the budget for the restricted sweep, and as much again for the free
/// one.
constexpr double kRestrictedShare = 0.4;

void add_unless_empty(std::vector<std::string>& warnings, const std::string& warning) {
  if (!warning.empty()) warnings.push_back(warning);
}

/// Returns the workload with what the user said beside it.
Workload as_told(Workload workload, const TuningRequest& request) {
  workload.mode = request.mode.value_or(workload.mode);
  workload.update_interval = request.update_interval.value_or(workload.update_interval);
  // The factor is that of the optimizer which the workload's own framework steps with.
  if (request.framework && *request.framework != workload.framework) workload.step_factor.reset();
  workload.framework = request.framework.value_or(workload.framework);
  const double estimate = estimated_step_factor(workload.framework, workload.mode);
  if (!workload.step_factor && estimate != 1) workload.step_factor = estimate;
  return workload;
}

/// Returns what every rank measures: both sides of the workload, cut down alike.
RankWork rank_work(const Workload& workload, std::uint64_t elements_per_rank, double scale) {
  RankWork work{.elements = elements_per_rank,
                .schedule = schedule_of(workload, scale),
                .isa = chosen_isa(),
                .framework = workload.framework};
  if (workload.training) work.training = scaled(*workload.training, scale);
  return work;
}

/// Keeps the unrestricted homes in `free_homes`. With for_deepspeed, replaces `placed` by homes that
/// DeepSpeed can be told.
void restrict_homes(TuningJob& job, const TuningRequest& request) {
  job.free_homes = job.placed.homes;
  if (request.for_deepspeed) {
    job.placed = deepspeed_rank_homes(job.machine, job.gpus, job.workload.framework);
  }
}

/// Sweeps without DeepSpeed's restriction, compares the two winners, and says what the restriction costs.
/// Throws Error if a measurement fails.
std::string measured_cost_for_deepspeed(const TuningJob& job, const Split& chosen, double tie,
                                        const SweepLimits& limits, Nanoseconds deadline_ns) {
  const SweepResult free =
      limits.stop() ? SweepResult() : sweep(job.free_homes, job.workload, *job.meter, limits, nullptr);
  if (free.splits.empty() || limits.stop()) return "What that costs against the free choice was not measured";
  const auto best = static_cast<std::size_t>(choose(free.evidence, job.workload).candidate);
  const Split& free_choice = free.splits[best];
  if (free_choice.ranks == chosen.ranks) return "That costs nothing: it is also the free choice";
  const Difference cost = restriction_cost(chosen, free_choice, schedule_of(job.workload, job.meter->scale()),
                                           *job.meter, deadline_ns, limits.stop);
  return cost_in_words(cost, tie, free_choice.label);
}

/// Says what DeepSpeed's restriction is and what it costs. The plan stands without that figure.
std::string cost_for_deepspeed(const TuningJob& job, const Split& chosen, double tie,
                               const SweepLimits& limits, Nanoseconds deadline_ns) {
  const std::string kept = format_text("The homes are kept to what DeepSpeed can be told: {}. ",
                                       restriction_in_words(job.placed.homes, job.machine.allowed));
  try {
    return kept + measured_cost_for_deepspeed(job, chosen, tie, limits, deadline_ns);
  } catch (const Error& error) {
    return kept + "What that costs against the free choice was not measured: " + error.what();
  }
}

/// Returns the first line of the job's sample file.
std::string header_of(const TuningJob& job) {
  const MachineClass machine = machine_class_of(job.machine.topology);
  return sample_file_header(machine, allocation_of(job.machine.allowed, machine), job.workload,
                            job.placed.homes, *job.meter);
}

/// Returns the meter that measures this many elements per rank.
std::unique_ptr<Meter> machine_meter(const Workload& workload, std::uint64_t elements_per_rank) {
  const auto measured = static_cast<double>(elements_per_rank * static_cast<std::uint64_t>(workload.ranks));
  const double scale = std::min(1.0, measured / static_cast<double>(workload.params));
  return std::make_unique<MachineMeter>(rank_work(workload, elements_per_rank, scale), scale);
}

}  // namespace

TuningJob job_on_this_machine(Machine machine, const TuningRequest& request) {
  TuningJob job;
  job.machine = std::move(machine);
  job.workload = as_told(request.workload, request);
  const Topology& topology = job.machine.topology;
  if (!topology.is_this_machine) {
    throw Error(Exit::usage,
                format_text("{} is not this machine: nothing can be measured on it", topology.source),
                "use zf-tune plan, which measures nothing, or tune --simulate");
  }
  Workload& workload = job.workload;
  const Environment environment = Environment::of_this_process();
  const auto of_file = workload.ranks == 0 ? std::nullopt : std::optional(workload.ranks);
  const RankCount found = rank_count_of(request.ranks ? request.ranks : of_file, environment, topology);
  const int count = found.count;
  job.ranks_note = rank_count_note(found);
  if (of_file) workload = on_ranks(std::move(workload), count);
  workload.ranks = count;
  const auto ranks = static_cast<std::size_t>(count);
  job.gpus = rank_gpus(environment, topology, workload.ranks);
  job.placed = rank_homes(job.machine, job.gpus);
  const std::uint64_t cache_bytes = last_level_cache_bytes(topology);
  WorkingSetSize size = working_set_size(workload.params, workload.ranks, cache_bytes,
                                         available_memory_bytes(SysRoot(), job.machine.allowed));
  if (workload.params == 0) workload.params = size.elements_per_rank * ranks;
  if (!request.has_workload_file) {
    workload.training = small_training_demand(workload.params / ranks);
  }
  restrict_homes(job, request);
  job.meter = machine_meter(workload, size.elements_per_rank);
  // An interrupted sweep of the whole size goes on, however short the budget of the next one is.
  if (!can_continue(request.samples, header_of(job))) {
    size = within_budget(size, workload.ranks, cache_bytes, request.limits.budget_ns);
    job.meter = machine_meter(workload, size.elements_per_rank);
  }
  job.warnings = topology.missing;
  add_unless_empty(job.warnings, size.warning);
  return job;
}

TuningJob job_on_simulated_machine(const std::filesystem::path& file, const TuningRequest& request) {
  const Workload& given = request.workload;
  SimulatedMachine machine = load_simulated_machine(file);
  const Workload workload = as_told(given.params == 0 ? load_workload(machine.workload) : given, request);
  const int ranks = request.ranks.value_or(machine.ranks);
  SimulatedJob simulated = simulated_job(std::move(machine), workload, ranks);
  TuningJob job;
  job.machine = std::move(simulated.machine);
  job.workload = simulated.model.workload();
  job.gpus = std::move(simulated.gpus);
  job.placed = std::move(simulated.placed);
  job.model = std::make_unique<SimulatedModel>(std::move(simulated.model));
  job.meter = std::make_unique<SimulatedMeter>(*job.model, simulated.elements_per_rank, request.limits.seed);
  job.warnings = {format_text("simulated with {}: nothing was measured on a real machine", file.string())};
  add_unless_empty(job.warnings, simulated.warning);
  restrict_homes(job, request);
  return job;
}

std::unique_ptr<RecordingMeter> make_recorder(const TuningJob& job, const std::filesystem::path& plan,
                                              bool fresh) {
  return std::make_unique<RecordingMeter>(*job.meter, sample_file_of(plan), header_of(job), fresh);
}

Plan tune(TuningJob& job, const TuningRequest& request, RecordingMeter* recorder,
          const std::function<int()>& interrupt, const std::function<void(const SweepProgress&)>& progress,
          const std::function<void()>& swept) {
  SweepLimits limits = request.limits;
  limits.stop = [&] { return interrupt() != 0; };
  const Nanoseconds start_ns = job.meter->now();
  const Framework framework = job.workload.framework;
  limits.shared_pools = request.for_deepspeed ? SharedPools::whole : shared_pools_of(framework);
  const bool divided = request.for_deepspeed && framework == Framework::superoffload;
  if (divided) limits.shared_pools = SharedPools::none;
  if (request.for_deepspeed) {
    limits.budget_share = kRestrictedShare;
    limits.budget_ns = static_cast<Nanoseconds>(kRestrictedShare * static_cast<double>(limits.budget_ns));
  }
  Meter& meter = recorder != nullptr ? static_cast<Meter&>(*recorder) : *job.meter;
  SweepResult result = sweep(job.placed.homes, job.workload, meter, limits, progress);
  swept();
  if (result.splits.empty()) {
    throw Error(Exit::runtime_error, "interrupted before anything was measured: no plan was written");
  }
  if (limits.budget_ns == 0) limits.budget_ns = result.budget_ns;
  Choice choice = choose(result.evidence, job.workload);
  const int signal = interrupt();
  if (result.cut_short) choice.reason += ". The sweep was cut short: a visit failed, see the warnings";
  if (signal != 0) choice.reason += format_text(". The sweep was cut short by SIG{}", ::sigabbrev_np(signal));
  const Split& chosen = result.splits[static_cast<std::size_t>(choice.candidate)];
  if (request.for_deepspeed) {
    const auto whole_ns = static_cast<Nanoseconds>(static_cast<double>(limits.budget_ns) / kRestrictedShare);
    if (divided) limits.shared_pools = SharedPools::whole;  // the free choice may share
    choice.reason +=
        ". " + cost_for_deepspeed(job, chosen, tie_of(result.evidence), limits, start_ns + whole_ns);
  }
  choice.reason += advice_of(result.evidence, job.workload);
  if (signal == 0 && !result.cut_short && recorder != nullptr) recorder->finish();
  std::vector<std::string> warnings = job.warnings;
  for (std::string& warning : result.warnings) warnings.push_back(std::move(warning));
  add_unless_empty(warnings, noise_warning(result.evidence));

  std::vector<std::string> notes = job.placed.notes;
  if (request.for_deepspeed) {
    for (std::string& sentence : unfair_fast_cores(chosen, job.machine.topology, job.machine.allowed.cpus))
      notes.push_back(std::move(sentence));
  }
  Plan plan = assemble(provenance_of(command_line()), job.machine, job.workload, chosen, choice,
                       std::move(result.evidence), std::move(warnings), std::move(notes));
  plan.intent.for_deepspeed = request.for_deepspeed;
  add_unless_empty(plan.warnings, spread_warning(plan));
  return plan;
}

}  // namespace zf
