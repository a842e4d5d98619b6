// Settings of the kernel that cost the optimizer bandwidth: page size, automatic migration, reclaim, swap,
// clock.
#include <fmt/core.h>

#include <cstdint>
#include <map>
#include <sstream>

#include "base/cpu_list.hpp"
#include "tuner/doctor/doctor.hpp"
#include "tuner/values.hpp"

namespace zf {
namespace {

/// The word in brackets of "always [madvise] never".
std::string chosen(const SysRoot& sysroot, const std::string& path) {
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

std::vector<Finding> huge_page_findings(const Patient& patient) {
  const std::string folder = "/sys/kernel/mm/transparent_hugepage/";
  std::vector<Finding> findings;
  if (chosen(patient.sysroot, folder + "enabled") == "never") {
    findings.push_back({Severity::warning, folder + "enabled is never: large arrays live in 4 KiB pages",
                        fmt::format("echo madvise > {}enabled", folder)});
  }
  const std::string shared = chosen(patient.sysroot, folder + "shmem_enabled");
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
         "vm.zone_reclaim_mode is on: a full node throws out page cache before it takes from its neighbour",
         "sysctl vm.zone_reclaim_mode=0"});
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
    findings.push_back(
        {Severity::warning,
         fmt::format("CPUs {} run under the governor {}: clocks fall between steps", print(cpus), governor),
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
           fmt::format("{} lie in swap (/proc/swaps): what the optimizer touches may have to come back first",
                       print_bytes(used_kib << 10)),
           "free memory, then swapoff -a && swapon -a brings it back"}};
}

}  // namespace zf
