#include "topology/hwloc_kinds.hpp"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "base/cpu_list.hpp"
#include "base/error.hpp"
#include "base/format.hpp"
#include "text/units.hpp"
#include "topology/hwloc_sets.hpp"

namespace zf {
namespace {

/// A CPU kind, and what tells it from the others.
struct KindOfHwloc {
  CpuKind kind;
  std::string make;  ///< all that hwloc says of it but its clocks
  /// The base clock and the highest clock, as far as they are known: of each kind that is joined in this one.
  std::vector<std::vector<double>> clocks_mhz = std::vector<std::vector<double>>(1);
};

/// Returns the type of these CPUs of a hybrid machine of Intel's, as Linux knows it; empty: none. hwloc (2.9)
/// asks the CPU itself, which it cannot do for a folder of files.
std::string core_type(const SysRoot& sysroot, const CpuSet& cpus) {
  for (const auto& [file, type] : {std::pair("cpu_core", "IntelCore"), std::pair("cpu_atom", "IntelAtom")}) {
    const auto list = sysroot.read(format_text("/sys/devices/{}/cpus", file));
    try {
      if (list && parse_cpu_list(*list, file).contains(cpus)) return format_text("CoreType={}", type);
    } catch (const Error&) {  // a list that cannot be read says nothing
    }
  }
  return {};
}

KindOfHwloc read_cpu_kind(hwloc_topology_t hwloc, unsigned index) {
  KindOfHwloc one;
  const Bitmap cpus(hwloc_bitmap_alloc());
  unsigned infos_count = 0;
  hwloc_info_s* infos = nullptr;
  if (hwloc_cpukinds_get_info(hwloc, index, cpus.get(), &one.kind.efficiency_rank, &infos_count, &infos, 0) !=
      0)
    return one;
  one.kind.cpus = ids_of<Pu>(cpus.get());
  for (unsigned info = 0; info < infos_count; ++info) {
    const std::string_view name = infos[info].name;
    const std::string words = format_text("{}={}", name, infos[info].value);
    one.kind.description += (one.kind.description.empty() ? "" : " ") + words;
    if (name == "LinuxCapacity") one.kind.capacity = parse_number<int>(infos[info].value);
    if (name != "FrequencyBaseMHz" && name != "FrequencyMaxMHz") {
      one.make += (one.make.empty() ? "" : " ") + words;
    } else if (const auto mhz = parse_number<int>(infos[info].value)) {
      one.clocks_mhz.front().push_back(*mhz);
    }
  }
  return one;
}

/// Returns true if the kinds differ in their clocks alone.
bool are_one_make(const KindOfHwloc& a, const KindOfHwloc& b) {
  return a.make == b.make && !(a.clocks_mhz.front().empty() && b.clocks_mhz.front().empty());
}

/// Returns true if each clock of one is like that of the other. `chained`: if it is like that of any kind
/// that is joined in the other.
bool have_like_clocks(const KindOfHwloc& one, const KindOfHwloc& other, bool chained) {
  const auto last = chained ? other.clocks_mhz.end() : other.clocks_mhz.begin() + 1;
  return std::any_of(other.clocks_mhz.begin(), last, [&](const std::vector<double>& clocks) {
    return std::equal(clocks.begin(), clocks.end(), one.clocks_mhz.front().begin(),
                      one.clocks_mhz.front().end(), are_alike);
  });
}

/// Returns true if the clocks of equal cores rise from core to core: amd-pstate computes them from the order
/// in which the scheduler prefers the cores (SpeedRules::amd).
bool clocks_follow_an_order(hwloc_topology_t hwloc) {
  const hwloc_obj_t package = hwloc_get_obj_by_type(hwloc, HWLOC_OBJ_PACKAGE, 0);
  const char* const vendor = package == nullptr ? nullptr : hwloc_obj_get_info_by_name(package, "CPUVendor");
  return vendor != nullptr && std::string_view(vendor) == "AuthenticAMD";
}

}  // namespace

std::vector<CpuKind> read_cpu_kinds(hwloc_topology_t hwloc, const TopologySource& source) {
  const bool with_clocks = !source.topology.empty();
  const bool chained = with_clocks && clocks_follow_an_order(hwloc);
  std::vector<KindOfHwloc> kinds;
  for (int i = 0; i < hwloc_cpukinds_get_nr(hwloc, 0); ++i) {
    KindOfHwloc one = read_cpu_kind(hwloc, static_cast<unsigned>(i));
    if (one.kind.cpus.empty()) continue;
    if (one.make.empty() && !with_clocks) one.make = core_type(source.sysroot, one.kind.cpus);
    if (!with_clocks) one.kind.description = one.make;
    const auto same = std::find_if(kinds.begin(), kinds.end(), [&](const KindOfHwloc& other) {
      return are_one_make(other, one) && (!with_clocks || have_like_clocks(one, other, chained));
    });
    if (same != kinds.end()) {
      same->kind.cpus |= one.kind.cpus;
      same->clocks_mhz.push_back(one.clocks_mhz.front());
      continue;
    }
    if (one.kind.efficiency_rank >= 0) one.kind.efficiency_rank = static_cast<int>(kinds.size());
    kinds.push_back(std::move(one));
  }
  std::vector<CpuKind> result;
  for (KindOfHwloc& one : kinds) result.push_back(std::move(one.kind));
  return join_similar_kinds(result);
}

}  // namespace zf
