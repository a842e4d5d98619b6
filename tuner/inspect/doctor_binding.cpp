// What binds elsewhere, or runs on the same CPUs: the launcher, late binding, OpenMP, other processes,
// interrupts.
#include "inspect/doctor.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>

#include "base/cpu_list.hpp"

namespace zf {
namespace {

std::string remedy_for(const Environment& environment) {
  if (environment.get("SLURM_JOB_ID")) return "srun --cpu-bind=none, and zf-tune exec before the command";
  if (environment.get("OMPI_COMM_WORLD_RANK"))
    return "mpirun --bind-to none, and zf-tune exec before the command";
  if (environment.get("TORCHELASTIC_RUN_ID"))
    return "torchrun without --numa-binding, and zf-tune exec before the command";
  return "start without taskset, numactl -C or the like, and with zf-tune exec before the command";
}

}  // namespace

std::vector<Finding> launcher_findings(const Patient& patient) {
  for (const Exclusion& exclusion : patient.allowed.exclusions) {
    if (exclusion.reason != ExclusionReason::affinity_mask) continue;
    const CpuSet lost = patient.plan ? exclusion.cpus & patient.cpus : exclusion.cpus;
    if (lost.empty()) continue;
    return {{patient.plan ? Severity::severe : Severity::warning,
             fmt::format("this process is already bound: CPUs {}{} are {}", print(lost),
                         patient.plan ? " of the plan" : "", exclusion.detail),
             remedy_for(patient.environment)}};
  }
  return {};
}

// Binding inside a running program moves the calling thread alone. Threads that exist already keep the old
// mask: then the main thread's mask is a part of theirs.

std::vector<Finding> late_binding_findings(const Patient& patient) {
  std::vector<Finding> findings;
  for (const ProcessState& process : patient.after.processes) {
    if (patient.after.under_a_plan.contains(process.pid)) continue;  // exec binds early; verify looks closer
    const CpuSet& main = process.threads.front().cpus;
    const auto left_behind = [&](const ThreadState& thread) {
      return thread.cpus != main && thread.cpus.contains(main);
    };
    const auto first = std::find_if(process.threads.begin(), process.threads.end(), left_behind);
    if (first == process.threads.end() || !main.intersects(patient.cpus)) continue;
    const auto count = std::count_if(process.threads.begin(), process.threads.end(), left_behind);
    findings.push_back(
        {Severity::warning,
         fmt::format("{} (process {}) was bound late: its main thread to {}, while {} of its threads may "
                     "still run on {}",
                     process.name, process.pid, print(main), count, print(first->cpus)),
         fmt::format(
             "start it with zf-tune exec, which binds before there are threads; now: taskset -acp {} {}",
             print(main), process.pid)});
  }
  return findings;
}

// OpenMP runtimes bind by themselves, and count their threads by themselves, where the environment says so.

namespace {

/// One "{…}" and nothing else: threads float in it, as they do under a plan.
bool is_one_place(const std::string& places) {
  return places.starts_with('{') && places.find('}') == places.size() - 1;
}

bool is_off(const std::string& proc_bind) { return proc_bind == "false" || proc_bind == "FALSE"; }

std::string unset(const char* name) { return fmt::format("unset {}", name); }

void examine_binding(const Environment& environment, std::vector<Finding>& findings) {
  if (const auto value = environment.get("KMP_AFFINITY")) {
    findings.push_back(
        {Severity::severe,
         fmt::format("KMP_AFFINITY={}: Intel's OpenMP binds threads where it likes, and DeepSpeed's "
                     "launcher refuses to bind at all",
                     *value),
         unset("KMP_AFFINITY")});
  }
  if (const auto value = environment.get("GOMP_CPU_AFFINITY")) {
    findings.push_back(
        {Severity::severe,
         fmt::format("GOMP_CPU_AFFINITY={}: libgomp binds to these CPUs, whatever the plan says", *value),
         unset("GOMP_CPU_AFFINITY")});
  }
  const std::string bind = environment.get("OMP_PROC_BIND").value_or("");
  const auto places = environment.get("OMP_PLACES");
  const bool one_place = places && is_one_place(*places);
  if (is_off(bind) || one_place) return;
  if (!bind.empty() || places) {
    findings.push_back(
        {Severity::warning,
         fmt::format("{} makes OpenMP bind the trainer's first thread to one place, which data loaders "
                     "and autograd threads inherit",
                     bind.empty() ? "OMP_PLACES=" + *places : "OMP_PROC_BIND=" + bind),
         "unset OMP_PROC_BIND OMP_PLACES"});
  }
}

void examine_count(const Patient& patient, const char* name, std::vector<Finding>& findings) {
  const auto value = patient.environment.get(name);
  if (!value) return;
  int count = 0;
  const char* end = value->data() + value->size();
  if (std::from_chars(value->data(), end, count).ptr != end)
    return;  // "4,2": nested levels, the user's business
  if (!patient.plan) {
    if (count > static_cast<int>(patient.cpus.size())) {
      findings.push_back({Severity::warning,
                          fmt::format("{}={} threads on {} allowed CPUs", name, count, patient.cpus.size()),
                          unset(name)});
    }
    return;
  }
  const auto& ranks = patient.plan->ranks;
  const auto other = std::find_if(ranks.begin(), ranks.end(),
                                  [&](const RankBinding& rank) { return rank.training.threads != count; });
  if (other == ranks.end()) return;
  findings.push_back({Severity::warning,
                      fmt::format("{}={} wins over the plan's {} threads for rank {}", name, count,
                                  other->training.threads, other->rank),
                      fmt::format("{}: zf-tune exec sets it", unset(name))});
}

}  // namespace

std::vector<Finding> openmp_findings(const Patient& patient) {
  std::vector<Finding> findings;
  examine_binding(patient.environment, findings);
  for (const char* name : {"OMP_NUM_THREADS", "MKL_NUM_THREADS"}) examine_count(patient, name, findings);
  return findings;
}

// Others on the plan's CPUs: processes and devices.

namespace {

constexpr double kBusyShare = 0.1;        // of one CPU: below it, anything that lives shows up
constexpr double kBusyInterrupts = 1000;  // per second: at some 5 us each, half a percent of a CPU
constexpr std::size_t kMostShown = 5;

}  // namespace

std::vector<Finding> busy_findings(const Patient& patient) {
  std::vector<Finding> findings;
  const auto ticks_per_s = static_cast<double>(::sysconf(_SC_CLK_TCK));
  for (const CpuTime& time : cpu_times(patient.before, patient.after, patient.cpus, ticks_per_s)) {
    if (time.share < kBusyShare || findings.size() == kMostShown) break;
    const bool planned = patient.after.under_a_plan.contains(time.pid);
    findings.push_back(
        {Severity::warning,
         fmt::format("{} (process {}{}) takes {:.0f} % of CPU {}", time.process, time.pid,
                     planned ? ", started by zf-tune exec" : "", 100 * time.share, time.cpu.os_index),
         fmt::format("end it, or move it away: taskset -acp CPUS {}", time.pid)});
  }
  return findings;
}

std::vector<Finding> interrupt_findings(const Patient& patient) {
  std::vector<Finding> findings;
  for (const InterruptRate& rate : interrupt_rates(patient.before, patient.after, patient.cpus)) {
    if (rate.per_s < kBusyInterrupts || findings.size() == kMostShown) break;
    findings.push_back(
        {Severity::warning,
         fmt::format("interrupt {} ({}) comes {:.0f} times a second on CPUs {}", rate.number, rate.device,
                     rate.per_s, print(rate.cpus)),
         fmt::format("send it to CPUs outside the plan: echo LIST > /proc/irq/{}/smp_affinity_list; "
                     "irqbalance needs IRQBALANCE_BANNED_CPULIST={}",
                     rate.number, print(patient.cpus))});
  }
  return findings;
}

}  // namespace zf
