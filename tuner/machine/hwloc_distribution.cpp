#include "machine/hwloc_distribution.hpp"

#include <hwloc.h>

#include <climits>
#include <string>

#include "base/cpu_list.hpp"
#include "base/error.hpp"
#include "base/format.hpp"
#include "machine/hwloc_sets.hpp"
#include "machine/hwloc_source.hpp"
#include "text/units.hpp"

namespace zf {
namespace {

std::vector<CpuSet> distribute(const TopologySource& source, const CpuSet& allowed, int ranks) {
  std::vector<std::string> missing;
  const Hwloc hwloc = load_hwloc(source, Caches::shared, missing);
  const Bitmap cpus(hwloc_bitmap_alloc());
  for (const Pu cpu : allowed) hwloc_bitmap_set(cpus.get(), static_cast<unsigned>(cpu.os_index));
  std::vector<hwloc_cpuset_t> sets(static_cast<std::size_t>(ranks));
  hwloc_obj_t root = hwloc_get_root_obj(hwloc.get());
  if (hwloc_topology_restrict(hwloc.get(), cpus.get(), 0) != 0 ||
      hwloc_distrib(hwloc.get(), &root, 1, sets.data(), static_cast<unsigned>(ranks), INT_MAX, 0) != 0) {
    throw Error(Exit::runtime_error, format_text("hwloc cannot distribute {} over CPUs {}",
                                                 print_count(sets.size(), "rank"), print(allowed)));
  }
  std::vector<CpuSet> homes;
  for (const hwloc_cpuset_t set : sets) {
    const Bitmap owned(set);
    homes.push_back(ids_of<Pu>(owned.get()));
  }
  return homes;
}

}  // namespace

std::vector<CpuSet> hwloc_distribution(const TopologySource& source, const CpuSet& allowed, int ranks) {
  try_in_child(source, [&] { distribute(source, allowed, ranks); });
  return distribute(source, allowed, ranks);
}

}  // namespace zf
