// Checks for what binds elsewhere or runs on the same CPUs: the launcher, late binding, OpenMP, other
// processes, interrupts.
#include "inspect/doctor.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <sstream>
#include <string_view>

#include "base/cpu_list.hpp"
#include "base/format.hpp"
#include "base/text.hpp"
#include "inspect/home_use.hpp"
#include "launchers/core_shortage.hpp"
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

/// Returns true for a single "{…}": threads move freely inside it, as they do under a plan.
bool is_one_place(const std::string& places) {
  return places.starts_with('{') && places.find('}') == places.size() - 1;
}

/// Returns the text in lower case, without blanks.
std::string plain(const std::string& text) {
  std::string found;
  for (const char c : text) {
    if (c != ' ' && c != '\t') found += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return found;
}

bool is_off(const std::string& proc_bind) { return plain(proc_bind) == "false"; }

/// Returns true if KMP_AFFINITY has a type that pins threads, among its modifiers and numbers.
bool kmp_pins(const std::string& affinity) {
  constexpr std::array<std::string_view, 10> kPinsNothing{
      "none",       "disabled", "verbose",   "noverbose",    "warnings",
      "nowarnings", "respect",  "norespect", "granularity=", "fine"};
  std::istringstream words(plain(affinity));
  for (std::string word; std::getline(words, word, ',');) {
    const bool is_number = word.find_first_not_of("0123456789") == std::string::npos;
    if (!is_number && std::none_of(kPinsNothing.begin(), kPinsNothing.end(),
                                   [&](std::string_view start) { return word.starts_with(start); }))
      return true;
  }
  return false;
}

std::string unset_command(const std::string& names) { return format_text("unset {}", names); }

void examine_binding(const Environment& environment, std::vector<Finding>& findings) {
  const std::string bind = environment.get("OMP_PROC_BIND").value_or("");
  if (const auto value = environment.get("KMP_AFFINITY")) {
    const bool pins = kmp_pins(*value);
    findings.push_back(
        {pins ? Severity::severe : Severity::note,
         format_text("KMP_AFFINITY={}: {}DeepSpeed's launcher refuses to bind at all", *value,
                     pins ? "Intel's OpenMP binds threads by it and not by the plan, and " : ""),
         unset_command("KMP_AFFINITY")});
  }
  if (const auto value = environment.get("GOMP_CPU_AFFINITY"); value && !is_off(bind)) {
    findings.push_back(
        {Severity::severe,
         format_text("GOMP_CPU_AFFINITY={}: libgomp binds threads to these CPUs and not to the plan's",
                     *value),
         unset_command("GOMP_CPU_AFFINITY")});
  }
  const auto places = environment.get("OMP_PLACES");
  const bool one_place = places && is_one_place(*places);
  if (is_off(bind) || one_place) return;
  if (!bind.empty() || places) {
    findings.push_back(
        {Severity::warning,
         format_text("{} makes OpenMP bind the trainer's first thread to one place, which data loaders "
                     "and autograd threads inherit",
                     bind.empty() ? "OMP_PLACES=" + *places : "OMP_PROC_BIND=" + bind),
         "unset OMP_PROC_BIND OMP_PLACES"});
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
  examine_binding(patient.environment, findings);
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
