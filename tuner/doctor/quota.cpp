// A CPU quota stops every thread of the group at once when it is used up: a step waits for the slowest.
#include <fmt/core.h>

#include <cstdint>
#include <map>
#include <sstream>
#include <string>

#include "os/cgroup_path.hpp"
#include "plan/plan_check.hpp"
#include "tuner/doctor/doctor.hpp"

namespace zf {
namespace {

constexpr double kOften = 0.01;

/// "nr_throttled 7" lines; the same two names in v1 and v2.
std::map<std::string, std::uint64_t> counters_of(const std::string& text) {
  std::map<std::string, std::uint64_t> counters;
  std::istringstream words(text);
  std::string name;
  for (std::uint64_t value = 0; words >> name >> value;) counters[name] = value;
  return counters;
}

/// zf-tune sizes homes to the quota that it sees. Made once more under the same one, the plan would need as
/// much: a home has two cores at least, and a pool may have a thread on each sibling.
std::string remedy_of(const Plan& plan, const Allowed& allowed, std::size_t threads) {
  if (plan.allocation.cpu_quota == allowed.cpu_quota) {
    return fmt::format(
        "raise the quota to {} CPUs; the plan was made under this one, and would come out the same", threads);
  }
  return fmt::format("raise the quota to {} CPUs, or make the plan again under it: zf-tune sizes pools to it",
                     threads);
}

}  // namespace

std::vector<Finding> quota_findings(const Patient& patient) {
  std::vector<Finding> findings;
  const Allowed& allowed = patient.allowed;
  const std::size_t threads = patient.plan ? threads_at_once(*patient.plan) : 0;
  if (allowed.cpu_quota && *allowed.cpu_quota < static_cast<double>(threads)) {
    findings.push_back({Severity::warning,
                        fmt::format("the plan runs {} threads at once, and {} allows the time of {:.4g} CPUs",
                                    threads, allowed.cpu_quota_path, *allowed.cpu_quota),
                        remedy_of(*patient.plan, allowed, threads)});
  }
  for (const std::string& group : groups_of(patient.sysroot, read_cgroup_paths(patient.sysroot), "cpu")) {
    const std::string path = group + "/cpu.stat";
    auto counters = counters_of(patient.sysroot.read(path).value_or(""));
    const std::uint64_t throttled = counters["nr_throttled"];
    const std::uint64_t periods = counters["nr_periods"];
    if (throttled == 0 || periods == 0) continue;
    const double share = static_cast<double>(throttled) / static_cast<double>(periods);
    findings.push_back(
        {share < kOften ? Severity::note : Severity::warning,
         fmt::format("{}: the quota stopped this group in {} of {} periods", path, throttled, periods),
         "raise the CPU quota (cpu.max, docker --cpus, a Kubernetes CPU limit), or use fewer threads"});
    break;  // the groups above count the same periods again
  }
  return findings;
}

}  // namespace zf
