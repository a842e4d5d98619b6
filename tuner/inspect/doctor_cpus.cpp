// Checks what takes CPU time away from the plan's threads: the quota, isolation, and limits of the clock.
#include "inspect/doctor.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <sstream>
#include <string>
#include <utility>

#include "base/cpu_list.hpp"
#include "base/format.hpp"
#include "launchers/core_shortage.hpp"
#include "os/cgroup_path.hpp"
#include "plan/plan_check.hpp"
#include "text/units.hpp"

namespace zf {
namespace {

constexpr double kThrottledShare = 0.01;  // of the periods; from here on a warning, not a note

/// Returns the "nr_throttled 7" lines by name. The names used here are the same in cgroup v1 and v2.
std::map<std::string, std::uint64_t> counters_of(const std::string& text) {
  std::map<std::string, std::uint64_t> counters;
  std::istringstream words(text);
  std::string name;
  for (std::uint64_t value = 0; words >> name >> value;) counters[name] = value;
  return counters;
}

/// Returns the remedy for a quota below the plan's threads. zf-tune sizes homes to the quota that it sees, so
/// a new plan under the same quota would need as much: a home has at least two cores, and a pool may have a
/// thread on each sibling.
std::string quota_remedy(const Plan& plan, const Allowed& allowed, std::size_t threads) {
  if (plan.allocation.cpu_quota == allowed.cpu_quota) {
    return format_text(
        "raise the quota to {}; a new plan would not help: this one was made under the same quota",
        print_count(threads, "CPU"));
  }
  return format_text("raise the quota to {}, or make the plan again under it: zf-tune sizes pools to it",
                     print_count(threads, "CPU"));
}

/// Returns the GPUs that have no allowed CPU near them.
std::vector<std::string> far_gpus(const Patient& patient) {
  std::vector<std::string> far;
  for (const auto& [address, cpus] : patient.gpus) {
    if (!cpus.empty() && !cpus.intersects(patient.allowed.cpus)) far.push_back(address);
  }
  return far;
}

std::string gpus_in_words(const std::vector<std::string>& addresses) {
  return (addresses.size() == 1 ? "GPU " : "GPUs ") + join_text(addresses, ", ");
}

/// Returns whether CPUs are the job's own, as neighbours_share() decides, and why. In a pod without a quota
/// nothing tells: since Kubernetes 1.32 a pod with CPUs of its own has none, as one without a limit in the
/// shared pool; cgroup v2 hides the path that has the pod's class, and CPUs of a claim come without a
/// request.
std::string who_has(const Allowed& allowed, const Environment& environment) {
  const bool some =
      std::any_of(allowed.exclusions.begin(), allowed.exclusions.end(), [](const Exclusion& one) {
        return one.reason == ExclusionReason::cgroup_cpuset || one.reason == ExclusionReason::affinity_mask;
      });
  if (allowed.shared_cpus) {
    return format_text("shared by quota ({} pays for {:.4g} of {})", allowed.cpu_quota_path,
                       *allowed.cpu_quota, allowed.cpus.size());
  }
  if (allowed.cpu_quota) return "this job's own (the quota pays for them)";
  if (some && environment.get("KUBERNETES_SERVICE_HOST"))
    return "this job's own if its pod is Guaranteed with whole CPUs, else shared (no quota)";
  return some ? "this job's own (no quota)" : "all of this node's, without a quota";
}

}  // namespace

// Each rank needs a core for training and one for its optimizer, and is fast with more.
std::vector<Finding> core_findings(const Patient& patient) {
  if (patient.ranks < 1 || patient.binding) return {};  // a process under exec sees its own home alone
  const auto shortage =
      core_shortage(static_cast<std::size_t>(patient.ranks), patient.cores, patient.allowed);
  if (!shortage) return {};
  return {{shortage->impossible ? Severity::severe : Severity::warning, shortage->what, shortage->remedy}};
}

std::vector<Finding> quota_findings(const Patient& patient) {
  std::vector<Finding> findings;
  const Allowed& allowed = patient.allowed;
  const std::size_t threads = patient.plan ? threads_at_once(*patient.plan) : 0;
  if (allowed.cpu_quota && *allowed.cpu_quota < static_cast<double>(threads)) {
    findings.push_back({Severity::warning,
                        format_text("the plan runs {} at once, and {} allows the time of {:.4g} CPU{}",
                                    print_count(threads, "thread"), allowed.cpu_quota_path,
                                    *allowed.cpu_quota, *allowed.cpu_quota == 1 ? "" : "s"),
                        quota_remedy(*patient.plan, allowed, threads)});
  }
  for (const std::string& group : groups_of(patient.sysroot, read_cgroup_paths(patient.sysroot), "cpu")) {
    const std::string path = group + "/cpu.stat";
    auto counters = counters_of(patient.sysroot.read(path).value_or(""));
    const std::uint64_t throttled = counters["nr_throttled"];
    const std::uint64_t periods = counters["nr_periods"];
    if (throttled == 0 || periods == 0) continue;
    const double share = static_cast<double>(throttled) / static_cast<double>(periods);
    findings.push_back(
        {share < kThrottledShare ? Severity::note : Severity::warning,
         format_text("{}: the quota stopped this group in {} of {}", path, throttled,
                     print_count(periods, "period")),
         "raise the CPU quota (cpu.max, docker --cpus, a Kubernetes CPU limit), or use fewer threads"});
    break;  // the parent groups count the same periods again
  }
  return findings;
}

// A process under exec sees the mask that exec gave it. Its binding tells whether the plan knows of
// neighbours.
std::vector<Finding> neighbour_findings(const Patient& patient) {
  const bool known = patient.plan ? patient.plan->allocation.shared_cpus
                                  : patient.binding && patient.binding->rank.optimizer.threads;
  if (!patient.allowed.shared_cpus && !known) return {};
  const bool pins = (patient.plan || patient.binding) && !known;
  std::string what = format_text("neighbours share these CPUs ({})", print(patient.allowed.cpus));
  if (patient.allowed.shared_cpus)
    what += format_text(": {} allows the time of {:.4g} of them", patient.allowed.cpu_quota_path,
                        *patient.allowed.cpu_quota);
  if (pins && patient.plan && patient.plan->intent.own_cpus)
    return {{Severity::note,
             what + "; the plan pins threads to some of them, because --allowed said that they are its own",
             "if other jobs use them, make a plan without --allowed"}};
  if (pins)
    return {{Severity::warning, what + "; the plan pins threads to some of them, as other jobs may do",
             "zf-tune plan --from PLAN -o PLAN lets the threads run on all CPUs near their GPU; with "
             "--allowed LIST "
             "it takes them as this job's own"}};
  return {{Severity::note, what + (known ? "; the plan pins no thread to a few of them" : ""),
           "CPUs of its own make a job's step steady: Kubernetes' static CPU policy with a whole number of "
           "CPUs, docker --cpuset-cpus without --cpus"}};
}

// Only without a plan: a plan's notes say which of its homes are far.
std::vector<Finding> far_gpu_findings(const Patient& patient) {
  const std::vector<std::string> far = far_gpus(patient);
  if (far.empty()) return {};
  return {
      {Severity::warning,
       format_text("{} {} near {}", print_cpus(patient.allowed.cpus),
                   patient.allowed.cpus.size() == 1 ? "is not" : "are not", gpus_in_words(far)),
       "Kubernetes: topologyManagerPolicy: restricted or best-effort; Slurm: --gres-flags=enforce-binding; "
       "docker: --cpuset-cpus"}};
}

std::string cpus_in_a_line(const Patient& patient) {
  const Allowed& allowed = patient.allowed;
  std::string line = print_cpus(allowed.cpus) + ": " + who_has(allowed, patient.environment);
  if (patient.gpus.empty()) return line;
  const std::vector<std::string> far = far_gpus(patient);
  if (!far.empty()) return line + "; far from " + gpus_in_words(far);
  if (std::any_of(patient.gpus.begin(), patient.gpus.end(),
                  [](const auto& gpu) { return gpu.second.empty(); }))
    return line + "; which CPUs are near its GPUs is not known";
  return line + (patient.gpus.size() == 1 ? "; near its GPU" : "; some near each of its GPUs");
}

std::vector<Finding> isolated_findings(const Patient& patient) {
  const auto words = isolation_in_words(patient.cpus, patient.isolated);
  if (!words) return {};
  constexpr const char* kKernel = "give the job other CPUs, or boot without isolcpus= and nohz_full=";
  if (patient.plan && patient.plan->intent.isolated)
    return {{Severity::note, *words + "; the plan has them because of --isolated", kKernel}};
  if (patient.isolated.all().contains(patient.cpus)) return {{Severity::warning, *words, kKernel}};
  if (!to_leave_out(patient.allowed.cpus | patient.cpus, patient.isolated).all().intersects(patient.cpus))
    return {{Severity::note, *words + "; zf-tune uses them because most of the allowed CPUs are", kKernel}};
  if (patient.plan || patient.binding)
    return {{Severity::warning, *words,
             "zf-tune plan --from PLAN -o PLAN leaves them out of the homes, or with --isolated keeps them"}};
  return {{Severity::note, *words,
           "zf-tune leaves them out of the homes unless --isolated is given; bind other programs elsewhere"}};
}

std::vector<Finding> governor_findings(const Patient& patient) {
  std::map<std::string, CpuSet> slow;
  for (const Pu cpu : patient.cpus) {
    const std::string folder = format_text("/sys/devices/system/cpu/cpu{}/cpufreq/", cpu.os_index);
    const auto governor = patient.sysroot.read(folder + "scaling_governor");
    if (governor && *governor != "performance") slow[*governor].insert(cpu);
  }
  std::vector<Finding> findings;
  for (const auto& [governor, cpus] : slow) {
    findings.push_back({Severity::warning,
                        format_text("{} {} under the governor {}: the clock falls between steps",
                                    print_cpus(cpus), cpus.size() == 1 ? "runs" : "run", governor),
                        "cpupower frequency-set -g performance; Slurm: srun --cpu-freq=performance"});
  }
  return findings;
}

// The firmware promises turbo, a clock (cpuinfo_max_freq) or prefers some cores (highest_perf), and the
// kernel was told to grant less.
std::vector<Finding> clock_limit_findings(const Patient& patient) {
  constexpr double kAlike = 1.1;  // as for CPU kinds
  std::map<std::pair<std::uint64_t, std::uint64_t>, CpuSet> limited;
  std::uint64_t least = UINT64_MAX;
  std::uint64_t most = 0;
  for (const Pu cpu : patient.cpus) {
    const auto figure = [&](const char* file) {
      return parse_number<std::uint64_t>(
                 patient.sysroot.read(format_text("/sys/devices/system/cpu/cpu{}/{}", cpu.os_index, file))
                     .value_or(""))
          .value_or(0);
    };
    const std::uint64_t limit = figure("cpufreq/scaling_max_freq");
    const std::uint64_t promised = figure("cpufreq/cpuinfo_max_freq");
    if (limit > 0 && static_cast<double>(limit) * kAlike < static_cast<double>(promised))
      limited[{limit, promised}].insert(cpu);
    if (const std::uint64_t priority = figure("acpi_cppc/highest_perf"); priority > 0) {
      least = std::min(least, priority);
      most = std::max(most, priority);
    }
  }
  std::vector<Finding> findings;
  for (const auto& [file, off] : {std::pair("intel_pstate/no_turbo", "1"), {"cpufreq/boost", "0"}}) {
    const std::string path = format_text("/sys/devices/system/cpu/{}", file);
    if (patient.sysroot.read(path) != off) continue;
    findings.push_back({Severity::warning,
                        format_text("{} is {}: no core runs faster than its base clock", path, off),
                        format_text("echo {} > {}", *off == '1' ? 0 : 1, path)});
  }
  for (const auto& [clocks, cpus] : limited) {
    findings.push_back(
        {Severity::warning,
         format_text(
             "{} may run at {:.2f} GHz at most (scaling_max_freq), and the firmware promises {:.2f} GHz",
             print_cpus(cpus), static_cast<double>(clocks.first) / 1e6,
             static_cast<double>(clocks.second) / 1e6),
         format_text("cpupower -c {} frequency-set -u {}kHz", print(cpus), clocks.second)});
  }
  const bool prefers = static_cast<double>(least) * kAlike < static_cast<double>(most);
  if (patient.sysroot.read("/sys/devices/system/cpu/amd_pstate/prefcore") == "disabled" && prefers) {
    findings.push_back(
        {Severity::note,
         "the firmware prefers some cores (acpi_cppc/highest_perf), and amd_pstate/prefcore is "
         "disabled: threads that are not bound do not go there first",
         "boot without amd_prefcore=disable"});
  }
  if (patient.sysroot.read("/proc/sys/kernel/sched_itmt_enabled") == "0" && prefers) {
    findings.push_back(
        {Severity::note,
         "the firmware prefers some cores (acpi_cppc/highest_perf), and kernel.sched_itmt_enabled is "
         "0: threads that are not bound do not go there first",
         "sysctl kernel.sched_itmt_enabled=1"});
  }
  return findings;
}

}  // namespace zf
