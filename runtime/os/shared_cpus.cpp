#include "os/shared_cpus.hpp"

#include <algorithm>

#include "base/cpu_list.hpp"
#include "base/format.hpp"

namespace zf {
namespace {

/// Returns true if the quota pays for nearly all of so many CPUs. A neighbour then has little of them.
bool pays_for_nearly_all(double quota, std::size_t cpus) {
  return 10 * quota >= 9 * static_cast<double>(cpus);
}

/// Returns true if an affinity mask takes CPUs away that are not isolated.
bool mask_names_cpus(const Allowed& allowed, const CpuSet& isolated) {
  return std::any_of(allowed.exclusions.begin(), allowed.exclusions.end(), [&](const Exclusion& exclusion) {
    return exclusion.reason == ExclusionReason::affinity_mask && !isolated.contains(exclusion.cpus);
  });
}

}  // namespace

bool neighbours_share(const Allowed& allowed, const IsolatedCpus& isolated) {
  if (!allowed.cpu_quota) return false;
  CpuSet cpus = allowed.cpus;
  for (const Exclusion& exclusion : allowed.exclusions) {
    if (exclusion.reason == ExclusionReason::not_in_list) cpus |= exclusion.cpus;
  }
  return !pays_for_nearly_all(*allowed.cpu_quota, cpus.size()) && !mask_names_cpus(allowed, isolated.all()) &&
         !isolated.isolated.contains(cpus);
}

std::optional<std::string> nearly_whole_quota_note(const Allowed& allowed) {
  const std::size_t cpus = allowed.cpus.size();
  if (!allowed.cpu_quota || allowed.own_by_name || *allowed.cpu_quota >= static_cast<double>(cpus) ||
      !pays_for_nearly_all(*allowed.cpu_quota, cpus))
    return std::nullopt;
  return format_text(
      "the CPU quota of {:.4g} ({}) pays for nearly all of the {} allowed CPUs, so they count as this job's "
      "own",
      *allowed.cpu_quota, allowed.cpu_quota_path, cpus);
}

}  // namespace zf
