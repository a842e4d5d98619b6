// Checks for what the node, the container or the kernel limits: the CPU quota, system calls, memory,
// settings.
#include "inspect/doctor.hpp"

#include <fmt/core.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <sstream>
#include <string>

#include "base/cpu_list.hpp"
#include "base/error.hpp"
#include "os/affinity.hpp"
#include "os/cgroup_path.hpp"
#include "os/memory.hpp"
#include "plan/plan_check.hpp"
#include "text/units.hpp"

namespace zf {
namespace {

// --- The CPU quota ----------------------------------------------------------------------------------------

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
    return fmt::format(
        "raise the quota to {}; a new plan would not help: this one was made under the same quota",
        print_count(threads, "CPU"));
  }
  return fmt::format("raise the quota to {}, or make the plan again under it: zf-tune sizes pools to it",
                     print_count(threads, "CPU"));
}

// --- System calls -----------------------------------------------------------------------------------------

/// One page that no thread has touched.
class Page {
 public:
  Page() : bytes_(static_cast<std::size_t>(::sysconf(_SC_PAGESIZE))) {
    start_ = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (start_ == MAP_FAILED) throw_errno(errno, "mmap of one page");
  }
  ~Page() { ::munmap(start_, bytes_); }
  Page(const Page&) = delete;
  Page& operator=(const Page&) = delete;
  void* start() const { return start_; }
  std::size_t bytes() const { return bytes_; }

 private:
  std::size_t bytes_;
  void* start_;
};

// --- Shared memory ----------------------------------------------------------------------------------------

constexpr std::uint64_t kSmallSharedMemory = std::uint64_t{1} << 30;
constexpr std::uint64_t kBytesPerParameter = 4;

/// Returns the bytes of "size=65536k" among tmpfs's options; nothing if it is not set: the kernel's default
/// is half of the memory.
std::optional<std::uint64_t> size_option(const std::string& options) {
  std::istringstream list(options);
  for (std::string option; std::getline(list, option, ',');) {
    if (!option.starts_with("size=")) continue;
    std::istringstream value(option.substr(5));
    std::uint64_t size = 0;
    char unit = 0;
    if (!(value >> size)) return std::nullopt;
    value >> unit;
    return unit == 'k' ? size << 10 : unit == 'm' ? size << 20 : unit == 'g' ? size << 30 : size;
  }
  return std::nullopt;
}

/// Returns the options of the file system at /dev/shm, which is on the last such line; nothing if none is
/// mounted.
std::optional<std::string> shm_options(const std::string& mounts) {
  std::optional<std::string> found;
  std::istringstream lines(mounts);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    std::string device, point, type, options;
    if (fields >> device >> point >> type >> options && point == "/dev/shm") found = options;
  }
  return found;
}

// --- Settings of the kernel -------------------------------------------------------------------------------

/// Returns the word in brackets of "always [madvise] never".
std::string bracketed_word(const SysRoot& sysroot, const std::string& path) {
  const std::string text = sysroot.read(path).value_or("");
  const auto open = text.find('[');
  const auto close = text.find(']', open == std::string::npos ? 0 : open);
  return open == std::string::npos || close == std::string::npos ? ""
                                                                 : text.substr(open + 1, close - open - 1);
}

bool is_on(const SysRoot& sysroot, const std::string& path) {
  const auto text = sysroot.read(path);
  return text && *text != "0";
}

}  // namespace

std::vector<Finding> quota_findings(const Patient& patient) {
  std::vector<Finding> findings;
  const Allowed& allowed = patient.allowed;
  const std::size_t threads = patient.plan ? threads_at_once(*patient.plan) : 0;
  if (allowed.cpu_quota && *allowed.cpu_quota < static_cast<double>(threads)) {
    findings.push_back({Severity::warning,
                        fmt::format("the plan runs {} at once, and {} allows the time of {:.4g} CPU{}",
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
         fmt::format("{}: the quota stopped this group in {} of {}", path, throttled,
                     print_count(periods, "period")),
         "raise the CPU quota (cpu.max, docker --cpus, a Kubernetes CPU limit), or use fewer threads"});
    break;  // the parent groups count the same periods again
  }
  return findings;
}

// A seccomp filter or missing capabilities may refuse these calls, often in containers.
std::vector<std::string> try_system_calls() {
  std::vector<std::string> refused;
  // An empty set of nodes sets the default policy, which is in force already.
  if (auto refusal = set_thread_memory_policy(MemoryPolicy::preferred, {}))
    refused.push_back(std::move(*refusal));
  const Page page;
  if (auto refusal = set_range_memory_policy(MemoryPolicy::preferred, {}, page.start(), page.bytes())) {
    refused.push_back(std::move(*refusal));
  }
  if (auto refusal = count_pages(page.start(), page.bytes()).refusal) refused.push_back(std::move(*refusal));
  try {
    bind_this_thread(thread_affinity());
  } catch (const Error& error) {
    refused.push_back(fmt::format("sched_setaffinity: {}", error.what()));
  }
  return refused;
}

std::vector<Finding> system_call_findings(const Patient& patient) {
  std::vector<Finding> findings;
  for (const std::string& refusal : patient.refused_calls) {
    const bool binding = refusal.starts_with("sched_setaffinity");
    findings.push_back(
        {binding ? Severity::severe : Severity::warning,
         fmt::format("{}: {}", refusal,
                     binding ? "no plan can be carried out" : "only first touch decides where memory lies"),
         "allow the call in the container: docker --cap-add SYS_NICE, or a seccomp profile that permits it"});
  }
  return findings;
}

// A /dev/shm or a limit of locked memory that is too small stops a job in the middle.
std::vector<Finding> shared_memory_findings(const Patient& patient) {
  const auto mounts = patient.sysroot.read("/proc/mounts");
  if (!mounts) return {};
  constexpr const char* kRemedy = "mount -o remount,size=… /dev/shm; docker --shm-size, or --ipc=host";
  const auto options = shm_options(*mounts);
  if (!options)
    return {{Severity::warning, "/dev/shm is not mounted: data loaders and ZenFlow need it", kRemedy}};
  const auto size = size_option(*options);
  const std::uint64_t needed =
      patient.plan ? patient.plan->workload.params * kBytesPerParameter : kSmallSharedMemory;
  if (!size || *size >= needed) return {};
  return {{Severity::warning,
           patient.plan
               ? fmt::format(
                     "/dev/shm holds {}, but the plan's {} parameters need {}: ZenFlow keeps them there "
                     "(zf-optimizer does not)",
                     print_bytes(*size), print_quantity(patient.plan->workload.params), print_bytes(needed))
               : fmt::format(
                     "/dev/shm holds {}: data loaders keep batches there, and ZenFlow keeps parameters there",
                     print_bytes(*size)),
           kRemedy}};
}

std::vector<Finding> locked_memory_findings(const Patient& patient) {
  std::istringstream lines(patient.sysroot.read("/proc/self/limits").value_or(""));
  constexpr std::string_view kName = "Max locked memory";
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(kName)) continue;
    std::istringstream fields(line.substr(kName.size()));
    std::uint64_t soft = 0;
    if (!(fields >> soft)) return {};  // "unlimited"
    return {
        {Severity::note,
         fmt::format("at most {} of memory may be locked: RDMA and io_uring lock what they transfer",
                     print_bytes(soft)),
         "ulimit -l unlimited; docker --ulimit memlock=-1; Slurm: PropagateResourceLimitsExcept=MEMLOCK and "
         "LimitMEMLOCK=infinity for slurmd"}};
  }
  return {};
}

// These settings of the kernel cost the optimizer bandwidth: page size, automatic migration, reclaim, swap,
// clock.
std::vector<Finding> huge_page_findings(const Patient& patient) {
  const std::string folder = "/sys/kernel/mm/transparent_hugepage/";
  std::vector<Finding> findings;
  if (bracketed_word(patient.sysroot, folder + "enabled") == "never") {
    findings.push_back({Severity::warning, folder + "enabled is never: large arrays live in 4 KiB pages",
                        fmt::format("echo madvise > {}enabled", folder)});
  }
  const std::string shared = bracketed_word(patient.sysroot, folder + "shmem_enabled");
  if (shared == "never" || shared == "deny") {
    findings.push_back(
        {Severity::note,
         fmt::format("{}shmem_enabled is {}: the optimizer's arena, which is shared memory, gets 4 KiB pages",
                     folder, shared),
         fmt::format("echo advise > {}shmem_enabled", folder)});
  }
  return findings;
}

std::vector<Finding> numa_findings(const Patient& patient) {
  constexpr const char* kOnline = "/sys/devices/system/node/online";
  std::vector<Finding> findings;
  if (parse_node_list(patient.sysroot.read(kOnline).value_or(""), kOnline).size() < 2) return findings;
  if (is_on(patient.sysroot, "/proc/sys/kernel/numa_balancing")) {
    findings.push_back({Severity::warning,
                        "kernel.numa_balancing is on: pages are unmapped to see who uses them, and moved "
                        "away from bound threads",
                        "sysctl kernel.numa_balancing=0"});
  }
  if (is_on(patient.sysroot, "/proc/sys/vm/zone_reclaim_mode")) {
    findings.push_back(
        {Severity::note,
         "vm.zone_reclaim_mode is on: a full node drops page cache before it takes memory from another node",
         "sysctl vm.zone_reclaim_mode=0"});
  }
  return findings;
}

std::vector<Finding> isolated_findings(const Patient& patient) {
  const auto words = isolation_in_words(patient.cpus, patient.isolated);
  if (!words) return {};
  constexpr const char* kKernel = "give the job other CPUs, or boot without isolcpus= and nohz_full=";
  if (patient.plan && patient.plan->intent.isolated)
    return {{Severity::note, *words + "; the plan has them because of --isolated", kKernel}};
  if (patient.isolated.all().contains(patient.cpus)) return {{Severity::warning, *words, kKernel}};
  if (patient.plan || patient.binding)
    return {{Severity::warning, *words,
             "zf-tune plan --from PLAN -o PLAN leaves them out of the homes, or with --isolated keeps them"}};
  return {{Severity::note, *words,
           "zf-tune leaves them out of the homes unless --isolated is given; bind other programs elsewhere"}};
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
                 patient.sysroot.read(fmt::format("/sys/devices/system/cpu/cpu{}/{}", cpu.os_index, file))
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
    const std::string path = fmt::format("/sys/devices/system/cpu/{}", file);
    if (patient.sysroot.read(path) != off) continue;
    findings.push_back({Severity::warning,
                        fmt::format("{} is {}: no core runs faster than its base clock", path, off),
                        fmt::format("echo {} > {}", *off == '1' ? 0 : 1, path)});
  }
  for (const auto& [clocks, cpus] : limited) {
    findings.push_back(
        {Severity::warning,
         fmt::format(
             "{} may run at {:.2f} GHz at most (scaling_max_freq), and the firmware promises {:.2f} GHz",
             print_cpus(cpus), static_cast<double>(clocks.first) / 1e6,
             static_cast<double>(clocks.second) / 1e6),
         fmt::format("cpupower -c {} frequency-set -u {}kHz", print(cpus), clocks.second)});
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

std::vector<Finding> governor_findings(const Patient& patient) {
  std::map<std::string, CpuSet> slow;
  for (const Pu cpu : patient.cpus) {
    const std::string folder = fmt::format("/sys/devices/system/cpu/cpu{}/cpufreq/", cpu.os_index);
    const auto governor = patient.sysroot.read(folder + "scaling_governor");
    if (governor && *governor != "performance") slow[*governor].insert(cpu);
  }
  std::vector<Finding> findings;
  for (const auto& [governor, cpus] : slow) {
    findings.push_back({Severity::warning,
                        fmt::format("{} {} under the governor {}: the clock falls between steps",
                                    print_cpus(cpus), cpus.size() == 1 ? "runs" : "run", governor),
                        "cpupower frequency-set -g performance; Slurm: srun --cpu-freq=performance"});
  }
  return findings;
}

std::vector<Finding> swap_findings(const Patient& patient) {
  std::istringstream lines(patient.sysroot.read("/proc/swaps").value_or(""));
  std::string line;
  std::getline(lines, line);  // the title
  std::uint64_t used_kib = 0;
  while (std::getline(lines, line)) {
    std::istringstream fields(line);
    std::string name, type;
    std::uint64_t size = 0, used = 0;
    if (fields >> name >> type >> size >> used) used_kib += used;
  }
  if (used_kib == 0) return {};
  return {{Severity::warning,
           fmt::format("{} of memory are in swap (/proc/swaps): pages that the optimizer touches may have to "
                       "be read back first",
                       print_bytes(used_kib << 10)),
           "free some memory; then swapoff -a && swapon -a reads it back"}};
}

}  // namespace zf
