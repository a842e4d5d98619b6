#include "os/shared_cpus.hpp"

#include <algorithm>

namespace zf {

bool neighbours_share(const Allowed& allowed, const CpuSet& isolated) {
  if (!allowed.cpu_quota || *allowed.cpu_quota >= static_cast<double>(allowed.cpus.size())) return false;
  return std::none_of(allowed.exclusions.begin(), allowed.exclusions.end(), [&](const Exclusion& exclusion) {
    switch (exclusion.reason) {
      case ExclusionReason::cgroup_cpuset:
      case ExclusionReason::not_in_list:
        return true;
      case ExclusionReason::affinity_mask:
        return !isolated.contains(exclusion.cpus);
      case ExclusionReason::offline:
      case ExclusionReason::isolated:
      case ExclusionReason::nohz_full:
        return false;
    }
    return false;
  });
}

}  // namespace zf
