#include "inspect/doctor.hpp"

#include <unistd.h>

#include <filesystem>
#include <optional>

#include "base/error.hpp"
#include "base/text.hpp"
#include "commands/commands.hpp"
#include "commands/job_warnings.hpp"
#include "commands/shared_arguments.hpp"
#include "commands/terminal.hpp"
#include "gpus/gpu_lookup.hpp"
#include "machine/rank_count.hpp"
#include "os/standard_streams.hpp"
#include "planning/plan_differences.hpp"
#include "text/wrap.hpp"

namespace zf {
namespace {

CommandSpec doctor_spec() {
  return {"doctor",
          "doctor [--format text|json] [--strict] [PLAN]",
          "Lists what will slow down a training job on this node, with a remedy for each finding. Watches "
          "the node for half a second and changes nothing.",
          {
              plan_option("examine the CPUs, threads and size of this plan, and treat the processes that run "
                          "under it as its job; also without --plan (default: examine all allowed CPUs)"),
              format_option(),
              {"strict", 0, "",
               "exit with 3 if a finding is worse than a note (default: exit with 0 whatever is found)"},
              {"sysroot", 0, "DIR",
               "use another machine: a folder that holds its /proc and /sys (default: /; e.g. capture)"},
          }};
}

/// Adds the number of ranks of a job without a plan, and the cores that the ranks share here, if these are
/// not the plan's homes. A machine that cannot be read has none: probe names the cause.
void count_ranks_and_cores(const SysRoot& sysroot, Patient& patient) {
  if (patient.plan && patient.allowed.cpus.contains(patient.cpus)) return;
  MachineSource source;
  source.sysroot = sysroot;
  source.with_io = !patient.plan;
  source.with_speeds = false;
  source.with_device_nodes = source.with_io;
  try {
    const Machine machine = source.with_io ? read_machine_and_ask_nvml(source) : read_machine(source);
    patient.cores = allowed_cores(machine);
    for (const Gpu& gpu : usable_gpus(machine.topology)) patient.gpus[gpu.pci_address] = gpu.local_cpus;
    if (!patient.plan)
      patient.ranks = rank_count_of(std::nullopt, patient.environment, machine.topology).count;
  } catch (const Error&) {
    patient.ranks = 0;
  }
}

/// Adds that the plan's job does not fit, if it does not. If it runs already, what it has counts as used:
/// then nothing is added.
void weigh_plan(const MachineSource& given, Patient& patient) {
  if (!patient.plan || plans_job_runs(patient)) return;
  MachineSource source = given;
  source.with_io = false;
  source.with_speeds = false;
  try {
    const Plan& plan = *patient.plan;
    const auto shortage =
        memory_shortage_here(plan.workload, plan.intent.state_format, read_machine(source), source);
    if (shortage) patient.memory = Finding{Severity::severe, *shortage, memory_remedy(plan.workload)};
  } catch (const Error&) {  // a machine that cannot be read: probe names the cause
  }
}

Exit doctor_run(const Arguments& arguments) {
  const Format format = format_argument(arguments);
  std::optional<std::filesystem::path> plan;
  if (const auto path = arguments.text("plan")) plan = *path;
  Patient patient = observe_node(machine_source(arguments).sysroot, plan);
  if (!patient.binding) count_ranks_and_cores(patient.sysroot, patient);
  weigh_plan(machine_source(arguments), patient);
  if (!speaks_for_node(patient.environment)) patient.ranks = 0;
  const auto diagnoses = examine(patient);
  const std::size_t width = list_columns(STDOUT_FILENO);
  if (format == Format::text && !patient.binding) print_stdout("{}", wrapped(cpus_in_a_line(patient), width));
  print_stdout("{}", format == Format::json ? diagnosis_json(diagnoses) : diagnosis_text(diagnoses, width));
  const bool hurts = !diagnoses.empty() && diagnoses.front().finding.severity > Severity::note;
  return hurts && arguments.has("strict") ? Exit::stale_plan : Exit::done;
}

}  // namespace

Command doctor_command() { return {doctor_spec(), doctor_run}; }

}  // namespace zf
