// Checks for what binds elsewhere or runs on the same CPUs: the launcher, late binding, OpenMP, other
// processes, interrupts.
#include "inspect/doctor.hpp"

#include <unistd.h>

#include <algorithm>
#include <map>

#include "base/cpu_list.hpp"
#include "base/format.hpp"
#include "base/text.hpp"
#include "inspect/home_use.hpp"
#include "launchers/core_shortage.hpp"
#include "launchers/openmp_variables.hpp"
#include "plan/thread_variables.hpp"
#include "text/units.hpp"

namespace zf {
namespace {

// --- Launchers --------------------------------------------------------------------------------------------

/// Returns the CPUs that this process should be allowed: what zf-tune exec gave it if that has started it,
/// else the homes of all ranks.
CpuSet wanted_cpus(const Patient& patient) {
  if (!patient.binding) return patient.cpus;
  const RankBinding& own = patient.binding->rank;
  return is_confined_to_training(*patient.binding) ? own.training.cpus : own.home.cpus;
}

// --- OpenMP -----------------------------------------------------------------------------------------------

std::string unset_command(const std::string& names) { return format_text("unset {}", names); }

/// Returns the homes that a process of this environment may have: the one that zf-tune exec gave it, else
/// those of all ranks of the plan. Empty: there is no plan.
std::vector<CpuSet> homes_of(const Patient& patient) {
  std::vector<CpuSet> homes;
  if (patient.binding) {
    homes.push_back(wanted_cpus(patient));
  } else if (patient.plan) {
    for (const RankBinding& rank : patient.plan->ranks)
      homes.push_back(process_cpus(rank, patient.plan->workload.framework).cpus);
  }
  return homes;
}

void examine_binding(const Patient& patient, std::vector<Finding>& findings) {
  constexpr const char* kRefuses = "DeepSpeed's launcher refuses to bind at all";
  const std::string kmp = patient.environment.get("KMP_AFFINITY").value_or("");
  if (!kmp.empty() && !kmp_affinity_binds(kmp)) {
    findings.push_back(
        {Severity::note, format_text("KMP_AFFINITY={}: {}", kmp, kRefuses), unset_command("KMP_AFFINITY")});
  }
  const auto homes = homes_of(patient);
  const std::string unset =
      unset_command(join_text(openmp_variables_to_unset(patient.environment, homes), " "));
  for (const OpenmpBinding& found : openmp_bindings(patient.environment, homes)) {
    const bool is_standard = found.variable.starts_with("OMP_");
    findings.push_back(
        {is_standard ? Severity::warning : Severity::severe,
         format_text("{}={}: {}{}", found.variable, found.value, found.effect,
                     found.variable == "KMP_AFFINITY" ? format_text(", and {}", kRefuses) : ""),
         patient.binding ? unset : format_text("{}; zf-tune exec does so for its job", unset)});
  }
}

/// Returns the number of OpenMP threads for each rank that this environment is for: the rank that zf-tune
/// exec has bound, else all ranks of the plan.
std::map<int, int> planned_threads(const Patient& patient) {
  std::map<int, int> threads;
  if (patient.binding) {
    const ProcessBinding& own = *patient.binding;
    const bool confined = is_confined_to_training(own);
    threads[own.rank.rank] = confined ? own.rank.training.threads : own.rank.home.threads;
  } else {
    for (const RankBinding& rank : patient.plan->ranks)
      threads[rank.rank] = process_cpus(rank, patient.plan->workload.framework).threads;
  }
  return threads;
}

/// Returns the variables that ask for a number of threads, by that number.
std::map<int, std::vector<std::string>> thread_variables_by_count(const Environment& environment) {
  std::map<int, std::vector<std::string>> names;
  for (const char* const name : kThreadVariables) {
    // "4,2" is one number per nesting level: the user decides.
    if (const auto count = parse_number<int>(environment.get(name).value_or("")))
      names[*count].emplace_back(name);
  }
  return names;
}

/// Holds a number of threads against the plan or the CPUs. `names` are the variables that ask for it.
void examine_count(const Patient& patient, int count, const std::vector<std::string>& names,
                   std::vector<Finding>& findings) {
  std::vector<std::string> settings;
  for (const std::string& name : names) settings.push_back(format_text("{}={}", name, count));
  const std::string asking = enumerated(settings);
  const std::string unset = unset_command(join_text(names, " "));
  const char* const ending = names.size() == 1 ? "s" : "";
  if (!patient.plan && !patient.binding) {
    if (count > static_cast<int>(patient.cpus.size())) {
      findings.push_back({Severity::warning,
                          format_text("{} ask{} for {} threads on {}", asking, ending, count,
                                      print_count(patient.cpus.size(), "allowed CPU")),
                          unset});
    }
    return;
  }
  for (const auto& [rank, threads] : planned_threads(patient)) {
    if (threads == count) continue;
    findings.push_back(
        {Severity::warning,
         format_text("{} override{} the plan's {} for rank {}", asking, ending,
                     print_count(threads, "thread"), rank),
         format_text("{}; zf-tune exec then sets {}", unset, names.size() == 1 ? "it" : "them")});
    return;
  }
}

// --- Other processes and devices --------------------------------------------------------------------------

constexpr double kBusyShare = 0.1;  // of one CPU; below it every process that is not idle would be listed
constexpr double kBusyInterrupts = 1000;  // per second; at about 5 us each, half a percent of a CPU
constexpr std::size_t kMaxShown = 5;

}  // namespace

std::vector<Finding> launcher_findings(const Patient& patient) {
  for (const Exclusion& exclusion : patient.allowed.exclusions) {
    if (exclusion.reason != ExclusionReason::affinity_mask) continue;
    const bool planned = patient.plan || patient.binding;
    const CpuSet lost = planned ? exclusion.cpus & wanted_cpus(patient) : exclusion.cpus;
    if (lost.empty()) continue;
    return {{planned ? Severity::severe : Severity::warning,
             format_text("this process is already bound: {}{} {} {}", print_cpus(lost),
                         planned ? " of the plan" : "", lost.size() == 1 ? "is" : "are", exclusion.detail),
             how_to_unbind(patient.environment) + ", and zf-tune exec before the command"}};
  }
  return {};
}

// Binding inside a running program moves only the calling thread. Existing threads keep the old mask; then
// the main thread's mask is a part of theirs.
std::vector<Finding> late_binding_findings(const Patient& patient) {
  std::vector<Finding> findings;
  for (const ProcessState& process : patient.after.processes) {
    if (patient.after.under_a_plan.contains(process.pid))
      continue;                               // exec binds before threads start; verify checks such processes
    if (process.name == "zf-tune") continue;  // binds each of its threads where it measures
    const CpuSet& main = process.threads.front().cpus;
    const auto left_behind = [&](const ThreadState& thread) {
      return thread.cpus != main && thread.cpus.contains(main);
    };
    const auto first = std::find_if(process.threads.begin(), process.threads.end(), left_behind);
    if (first == process.threads.end() || !main.intersects(patient.cpus)) continue;
    const auto count = std::count_if(process.threads.begin(), process.threads.end(), left_behind);
    findings.push_back(
        {Severity::warning,
         format_text("{} (process {}) was bound late: its main thread to {}, "
                     "while {} of its threads may still run on {}",
                     process.name, process.pid, print_cpus(main), count, print_cpus(first->cpus)),
         format_text("start it with zf-tune exec, which binds before threads exist; "
                     "to bind it now: taskset -acp {} {}",
                     print(main), process.pid)});
  }
  return findings;
}

// ZenFlow and SuperOffload divide the mask of their process by themselves, children included.
std::vector<Finding> divided_home_findings(const Patient& patient) {
  std::vector<BoundProcess> processes;
  for (const JobProcess& member : patient.job) {
    if (member.binding) processes.push_back({&member, *member.binding});
  }
  std::vector<Finding> findings;
  for (const RankProcesses& rank : ranks_of(processes)) {
    const HomeUse use = home_use(rank);
    for (const JobProcess* member : use.divided) {
      findings.push_back(
          {Severity::warning,
           format_text("{} (process {}, rank {}) {}", member->process.name, member->process.pid, member->rank,
                       division_in_words(*member, rank.binding, use)),
           "tell DeepSpeed the plan's fraction with `zf-tune export --for deepspeed`, or make the plan with "
           "--framework native and let zf-tune's own optimizer process do the step"});
    }
  }
  return findings;
}

// OpenMP runtimes bind and count their threads themselves if the environment tells them to.
std::vector<Finding> openmp_findings(const Patient& patient) {
  std::vector<Finding> findings;
  examine_binding(patient, findings);
  for (const auto& [count, names] : thread_variables_by_count(patient.environment))
    examine_count(patient, count, names, findings);
  return findings;
}

std::vector<Finding> busy_findings(const Patient& patient) {
  std::vector<Finding> findings;
  const auto ticks_per_s = static_cast<double>(::sysconf(_SC_CLK_TCK));
  for (const CpuTime& time : cpu_times(patient.before, patient.after, patient.cpus, ticks_per_s)) {
    if (time.share < kBusyShare || findings.size() == kMaxShown) break;
    const bool planned = patient.after.under_a_plan.contains(time.pid);
    findings.push_back(
        {Severity::warning,
         format_text("{} (process {}{}) takes {:.0f} % of CPU {}", time.process, time.pid,
                     planned ? ", started by zf-tune exec" : "", 100 * time.share, time.cpu.os_index),
         format_text("end it, or move it to other CPUs: taskset -acp CPUS {}", time.pid)});
  }
  return findings;
}

std::vector<Finding> interrupt_findings(const Patient& patient) {
  std::vector<Finding> findings;
  for (const InterruptRate& rate : interrupt_rates(patient.before, patient.after, patient.cpus)) {
    if (rate.per_s < kBusyInterrupts || findings.size() == kMaxShown) break;
    findings.push_back({Severity::warning,
                        format_text("interrupt {} ({}) arrives {:.0f} times a second on {}", rate.number,
                                    rate.device, rate.per_s, print_cpus(rate.cpus)),
                        format_text("send it to other CPUs: echo LIST > /proc/irq/{}/smp_affinity_list; "
                                    "irqbalance needs IRQBALANCE_BANNED_CPULIST={}",
                                    rate.number, print(patient.cpus))});
  }
  return findings;
}

}  // namespace zf
