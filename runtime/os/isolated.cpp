#include "os/isolated.hpp"

#include "base/cpu_list.hpp"
#include "base/error.hpp"
#include "base/format.hpp"

namespace zf {
namespace {

constexpr const char* kIsolated =
    "isolated (isolcpus, or a cpuset partition): the scheduler does not move threads there, so that several "
    "threads of a job stay on one CPU";
constexpr const char* kNohzFull =
    "nohz_full: made for one pinned thread per CPU, and several threads of a job are slower there";

CpuSet cpus_in(const SysRoot& sysroot, const char* path, std::vector<std::string>& missing) {
  const auto text = sysroot.read(path);
  if (!text || text->find("(null)") != std::string::npos)
    return {};  // the kernel's word for "no such option"
  try {
    return parse_cpu_list(*text, path);
  } catch (const Error& error) {
    missing.emplace_back(error.what());
    return {};
  }
}

}  // namespace

IsolatedCpus read_isolated_cpus(const SysRoot& sysroot) {
  IsolatedCpus cpus;
  cpus.isolated = cpus_in(sysroot, "/sys/devices/system/cpu/isolated", cpus.missing);
  cpus.nohz_full = cpus_in(sysroot, "/sys/devices/system/cpu/nohz_full", cpus.missing);
  return cpus;
}

IsolatedCpus to_leave_out(const CpuSet& allowed, const IsolatedCpus& isolated) {
  if (isolated.all().contains(allowed)) return {};
  IsolatedCpus out;
  out.isolated = allowed & isolated.isolated;
  const CpuSet movable = allowed - out.isolated;
  const CpuSet nohz_full = movable & isolated.nohz_full;
  if (2 * nohz_full.size() <= movable.size()) out.nohz_full = nohz_full;
  return out;
}

void leave_out_isolated(Allowed& allowed, const IsolatedCpus& isolated) {
  const IsolatedCpus out = to_leave_out(allowed.cpus, isolated);
  const auto leave_out = [&](const CpuSet& gone, ExclusionReason reason, const char* detail) {
    if (gone.empty()) return;
    allowed.cpus = allowed.cpus - gone;
    allowed.exclusions.push_back({reason, gone, detail});
  };
  leave_out(out.isolated, ExclusionReason::isolated, kIsolated);
  leave_out(out.nohz_full, ExclusionReason::nohz_full, kNohzFull);
}

std::string_view why_not_left_out(const CpuSet& cpus, const IsolatedCpus& isolated) {
  const bool most = !cpus.intersects(isolated.isolated) && !isolated.nohz_full.contains(cpus);
  return most ? "most of the allowed CPUs are" : "no other CPU is allowed";
}

std::optional<std::string> isolation_in_words(const CpuSet& cpus, const IsolatedCpus& isolated) {
  std::string text;
  const auto add = [&](const CpuSet& some, const char* detail) {
    if (some.empty()) return;
    text += format_text("{}CPU{} {} {} {}", text.empty() ? "" : "; ", some.size() == 1 ? "" : "s",
                        print(some), some.size() == 1 ? "is" : "are", detail);
  };
  add(cpus & isolated.isolated, kIsolated);
  add((cpus & isolated.nohz_full) - isolated.isolated, kNohzFull);
  return text.empty() ? std::nullopt : std::optional(text);
}

}  // namespace zf
