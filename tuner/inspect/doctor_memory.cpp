// Checks what limits memory or slows it down: shared and locked memory, page sizes, NUMA settings, swap.
#include "inspect/doctor.hpp"

#include <cstdint>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>

#include "base/cpu_list.hpp"
#include "base/format.hpp"
#include "os/memory_limits.hpp"
#include "plan/given_policy.hpp"
#include "text/units.hpp"

namespace zf {
namespace {

// --- Shared memory ----------------------------------------------------------------------------------------

constexpr std::uint64_t kSmallSharedMemory = std::uint64_t{1} << 30;
constexpr std::uint64_t kBytesPerParameter = 4;

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

std::vector<Finding> memory_findings(const Patient& patient) {
  if (!patient.memory) return {};
  return {*patient.memory};
}

// A policy that others have set is kept, so it may keep a rank from its nodes.
std::vector<Finding> memory_policy_findings(const Patient& patient) {
  if (!patient.given_policy) return {};
  const auto far = patient.plan ? rank_kept_away(*patient.plan, *patient.given_policy) : std::nullopt;
  return {{far ? Severity::warning : Severity::note, kept_in_words(*patient.given_policy, far),
           "start zf-tune exec without it, or with --memory-policy plan"}};
}

// A /dev/shm or a limit of locked memory that is too small stops a job in the middle.
std::vector<Finding> shared_memory_findings(const Patient& patient) {
  const auto shared = read_shared_memory(patient.sysroot);
  if (!shared) return {};
  constexpr const char* kRemedy = "mount -o remount,size=... /dev/shm; docker --shm-size, or --ipc=host";
  if (!shared->is_mounted)
    return {{Severity::warning, "/dev/shm is not mounted: data loaders and ZenFlow need it", kRemedy}};
  // What a running job keeps there is not missing.
  const auto size = plans_job_runs(patient) ? shared->size : shared->room();
  const std::uint64_t needed =
      patient.plan ? patient.plan->workload.params * kBytesPerParameter : kSmallSharedMemory;
  if (!size || *size >= needed) return {};
  return {
      {Severity::warning,
       patient.plan
           ? format_text(
                 "/dev/shm has room for {}, but the plan's {} parameters need {}: ZenFlow keeps them there "
                 "(zf-optimizer does not)",
                 print_bytes(*size), print_quantity(patient.plan->workload.params), print_bytes(needed))
           : format_text("/dev/shm has room for {}: data loaders keep batches there, and ZenFlow keeps "
                         "parameters there",
                         print_bytes(*size)),
       kRemedy}};
}

std::vector<Finding> locked_memory_findings(const Patient& patient) {
  const auto limit = locked_memory_limit(patient.sysroot);
  if (!limit) return {};
  return {
      {Severity::note,
       format_text("at most {} of memory may be locked: RDMA and io_uring lock what they transfer",
                   print_bytes(*limit)),
       "ulimit -l unlimited; docker --ulimit memlock=-1; Slurm: PropagateResourceLimitsExcept=MEMLOCK and "
       "LimitMEMLOCK=infinity for slurmd"}};
}

std::vector<Finding> huge_page_findings(const Patient& patient) {
  const std::string folder = "/sys/kernel/mm/transparent_hugepage/";
  std::vector<Finding> findings;
  if (bracketed_word(patient.sysroot, folder + "enabled") == "never") {
    findings.push_back({Severity::warning, folder + "enabled is never: large arrays live in 4 KiB pages",
                        format_text("echo madvise > {}enabled", folder)});
  }
  const std::string shared = bracketed_word(patient.sysroot, folder + "shmem_enabled");
  if (shared == "never" || shared == "deny") {
    findings.push_back(
        {Severity::note,
         format_text("{}shmem_enabled is {}: the optimizer's arena, which is shared memory, gets 4 KiB pages",
                     folder, shared),
         format_text("echo advise > {}shmem_enabled", folder)});
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
           format_text("{} of memory are in swap (/proc/swaps): pages that the optimizer touches may have to "
                       "be read back first",
                       print_bytes(used_kib << 10)),
           "free some memory; then swapoff -a && swapon -a reads it back"}};
}

}  // namespace zf
