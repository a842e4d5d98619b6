#include "search/tuning_job.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "base/format.hpp"
#include "engine/working_set.hpp"
#include "gpus/rank_gpus.hpp"
#include "homes/deepspeed_homes.hpp"
#include "machine/fingerprint.hpp"
#include "machine/rank_count.hpp"
#include "measure/machine_meter.hpp"
#include "measure/training_demand.hpp"
#include "measure/working_set_size.hpp"
#include "measure/workload_file.hpp"
#include "os/environment.hpp"
#include "plan/field_check.hpp"
#include "plan/workload_fields.hpp"
#include "planning/assemble.hpp"
#include "simulate/simulated_job.hpp"
#include "simulate/simulated_meter.hpp"
#include "text/units.hpp"

namespace zf {
namespace {

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
RankWork rank_work(const Workload& workload, std::uint64_t elements_per_rank, double scale,
                   StateFormat format) {
  RankWork work{.elements = elements_per_rank,
                .schedule = schedule_of(workload, scale),
                .isa = chosen_isa(),
                .framework = workload.framework,
                .format = format};
  if (workload.training) work.training = scaled(*workload.training, scale);
  return work;
}

/// Throws Error(usage) if a figure of the workload breaks its rule: a plan with it could not be kept, so it
/// is refused before anything is measured.
void need_sound(const Workload& workload) {
  const auto found = check_fields(workload);
  if (!found) return;
  throw Error(Exit::usage,
              format_text("no plan can have this workload ({} parameters on {} rank{}): {} {}",
                          print_quantity(workload.params), workload.ranks, workload.ranks == 1 ? "" : "s",
                          found->field, found->what),
              "give fewer parameters (--params) or more ranks (--ranks), or correct the workload file");
}

/// Keeps the unrestricted homes in `free_homes`. With for_deepspeed, replaces `placed` by homes that
/// DeepSpeed can be told.
void restrict_homes(TuningJob& job, const TuningRequest& request) {
  job.free_homes = job.placed.homes;
  if (request.for_deepspeed) {
    job.placed = deepspeed_rank_homes(job.machine, job.gpus, job.workload.framework);
  }
}

/// Returns the first line of the job's sample file.
std::string header_of(const TuningJob& job) {
  const MachineClass machine = machine_class_of(job.machine.topology);
  return sample_file_header(machine, allocation_of(job.machine.allowed, machine), job.workload,
                            job.placed.homes, *job.meter);
}

/// Returns the meter that measures this many elements per rank.
std::unique_ptr<Meter> machine_meter(const Workload& workload, std::uint64_t elements_per_rank,
                                     StateFormat format) {
  const auto measured = static_cast<double>(elements_per_rank * static_cast<std::uint64_t>(workload.ranks));
  const double scale = std::min(1.0, measured / static_cast<double>(workload.params));
  return std::make_unique<MachineMeter>(rank_work(workload, elements_per_rank, scale, format), scale);
}

/// Returns true if an interrupted sweep of this job goes on.
bool goes_on(const TuningJob& job, const TuningRequest& request) {
  return !request.plan.empty() && !request.fresh &&
         can_continue(sample_file_of(request.plan), header_of(job));
}

}  // namespace

Workload requested_workload(const std::optional<Workload>& of_file, std::optional<std::uint64_t> params) {
  if (of_file) return *of_file;
  Workload workload{params ? "params" : "small", 0, 0, 1};
  workload.params = params.value_or(0);
  return workload;
}

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
  const auto given = request.ranks || request.gpus.is_given() ? request.ranks : of_file;
  const RankCount found = rank_count_of(given, environment, topology, request.gpus);
  const int count = found.count;
  job.ranks_note = rank_count_note(found);
  if (of_file) workload = on_ranks(std::move(workload), count);
  workload.ranks = count;
  const auto ranks = static_cast<std::size_t>(count);
  job.gpus = rank_gpus(environment, topology, workload.ranks, request.gpus);
  job.placed = rank_homes(job.machine, job.gpus);
  const std::uint64_t cache_bytes = last_level_cache_bytes(topology);
  // The step of another format than fp32 has arrays of its own beside the roofline loop's.
  const std::uint64_t available = available_memory_bytes(SysRoot(), job.machine.allowed) /
                                  WorkingSet::bytes_per_element(request.state_format) *
                                  WorkingSet::kBytesPerElement;
  WorkingSetSize size = working_set_size(workload.params, workload.ranks, cache_bytes, available);
  if (workload.params == 0) workload.params = size.elements_per_rank * ranks;
  if (!request.has_workload_file) {
    workload.training = small_training_demand(workload.params / ranks);
  }
  need_sound(workload);
  restrict_homes(job, request);
  job.meter = machine_meter(workload, size.elements_per_rank, request.state_format);
  // An interrupted sweep of the whole size goes on, however short the budget of the next one is.
  if (!goes_on(job, request)) {
    size = within_budget(size, workload.ranks, cache_bytes, request.limits.budget_ns);
    job.meter = machine_meter(workload, size.elements_per_rank, request.state_format);
  }
  job.warnings = topology.missing;
  if (!size.warning.empty()) job.warnings.push_back(size.warning);
  return job;
}

TuningJob job_on_simulated_machine(const std::filesystem::path& file, const TuningRequest& request) {
  const Workload& given = request.workload;
  SimulatedMachine machine = load_simulated_machine(file);
  const Workload workload = as_told(given.params == 0 ? load_workload(machine.workload) : given, request);
  const auto own = request.gpus.is_given() ? std::nullopt : std::optional(machine.ranks);
  const int ranks =
      rank_count_of(request.ranks ? request.ranks : own, {}, machine.topology, request.gpus).count;
  const std::string compared = machine.compared.empty()
                                   ? "no public measurement of this kind of machine is known to the model"
                                   : "compared with public measurements: " + machine.compared;
  SimulatedJob simulated = simulated_job(std::move(machine), workload, ranks, request.gpus);
  TuningJob job;
  job.machine = std::move(simulated.machine);
  job.workload = simulated.model.workload();
  need_sound(job.workload);
  job.gpus = std::move(simulated.gpus);
  job.placed = std::move(simulated.placed);
  job.model = std::make_unique<SimulatedModel>(std::move(simulated.model));
  job.meter = std::make_unique<SimulatedMeter>(*job.model, simulated.elements_per_rank, request.limits.seed);
  job.warnings = {format_text("simulated with {}: nothing was measured on a real machine", file.string()),
                  compared};
  if (!simulated.warning.empty()) job.warnings.push_back(simulated.warning);
  restrict_homes(job, request);
  return job;
}

std::unique_ptr<RecordingMeter> make_recorder(const TuningJob& job, const TuningRequest& request) {
  if (request.plan.empty()) return nullptr;
  return std::make_unique<RecordingMeter>(*job.meter, sample_file_of(request.plan), header_of(job),
                                          request.fresh);
}

}  // namespace zf
