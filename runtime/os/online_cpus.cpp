#include "os/online_cpus.hpp"

#include <string_view>

#include "base/cpu_list.hpp"
#include "base/format.hpp"
#include "base/trim.hpp"
#include "os/affinity.hpp"
#include "os/own_status.hpp"

namespace zf {
namespace {

constexpr const char* kOnline = "/sys/devices/system/cpu/online";
constexpr const char* kPresent = "/sys/devices/system/cpu/present";

/// Returns true if the CPU's own file says that it is offline. The boot CPU often has no such file.
bool says_offline(const SysRoot& sysroot, Pu cpu) {
  const auto text = sysroot.read(format_text("/sys/devices/system/cpu/cpu{}/online", cpu.os_index));
  return text && trim(*text, kKernelBlanks) == "0";
}

bool has_topology(const SysRoot& sysroot, Pu cpu) {
  return sysroot.exists(format_text("/sys/devices/system/cpu/cpu{}/topology/core_id", cpu.os_index));
}

/// Returns those of the CPUs that are online by their own files. `need_topology`: a CPU without a topology
/// folder is not.
CpuSet online_by_own_files(const SysRoot& sysroot, const CpuSet& cpus, bool need_topology) {
  CpuSet online;
  for (const Pu cpu : cpus) {
    if (!says_offline(sysroot, cpu) && (!need_topology || has_topology(sysroot, cpu))) online.insert(cpu);
  }
  return online;
}

/// Returns how the file contradicts the rest; empty if it does not.
std::string contradiction_of(const OnlineCpus& online) {
  const CpuSet unlisted = online.cpus - online.listed;
  if (unlisted.empty() || online.listed.empty()) return {};
  if (online.mask && online.mask->intersects(unlisted)) {
    return format_text(
        "the files contradict the kernel's mask (lxcfs?): {} lists {}, and the mask has {}; the mask counts",
        kOnline, print_cpus(online.listed), print_cpus(*online.mask));
  }
  return format_text("{} lists only {}, and {} {} online by other files (lxcfs?)", kOnline,
                     print_cpus(online.listed), print_cpus(unlisted), unlisted.size() == 1 ? "is" : "are");
}

}  // namespace

OnlineCpus read_online_cpus(const SysRoot& sysroot) {
  OnlineCpus online;
  const auto cpus_in = [&](const char* path) {
    const auto text = sysroot.read(path);
    if (!text) online.missing.push_back(format_text("{} cannot be read", path));
    return parse_cpu_list(text.value_or(""), path);
  };
  online.present = cpus_in(kPresent);
  online.listed = cpus_in(kOnline);
  online.cpus = online.listed;
  if (sysroot.is_this_machine()) {
    online.mask = thread_affinity();
    online.cpus |= *online.mask;
  } else if (const auto list = status_field(sysroot, "Cpus_allowed_list")) {
    online.mask = parse_cpu_list(*list, kStatusFile);
  }
  const CpuSet known = online.present | online.mask.value_or(CpuSet());  // `present` may be virtual too
  online.cpus |= online_by_own_files(sysroot, known - online.cpus, true);
  if (online.mask && !online.listed.empty() && online.mask->intersects(online.cpus - online.listed))
    online.cpus |= online_by_own_files(sysroot, online.present - online.cpus, false);
  // What another machine's file says of a mask may name CPUs that are offline.
  if (online.mask && !online.cpus.empty()) online.mask = *online.mask & online.cpus;
  online.present |= online.cpus;
  online.contradiction = contradiction_of(online);
  return online;
}

}  // namespace zf
