#include "homes/mask_parts.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "base/cpu_list.hpp"
#include "base/error.hpp"
#include "base/format.hpp"
#include "base/text.hpp"

namespace zf {
namespace {

using Ranks = std::vector<std::size_t>;

/// CPUs of one core that go to one rank, and the ranks that have all of them in their masks, ascending.
struct Unit {
  CpuSet cpus;
  Ranks ranks;
};

/// Units that are alike: the same ranks may have them, and they are as near to the place of each.
struct Region {
  Ranks ranks;
  std::vector<int> distance;       ///< by rank: 0 is near its GPU
  std::vector<std::size_t> units;  ///< ascending
  std::vector<int> taken;          ///< by rank: how many it has
};

Ranks ranks_with(const CpuSet& cpus, const std::vector<CpuSet>& masks) {
  Ranks ranks;
  for (std::size_t rank = 0; rank < masks.size(); ++rank) {
    if (masks[rank].contains(cpus)) ranks.push_back(rank);
  }
  return ranks;
}

/// Returns the units of all masks in topological order: cores, where `whole` and some mask has all of the
/// core, else the CPUs of a core that the same ranks may have.
std::vector<Unit> units_of(const Topology& topology, const std::vector<CpuSet>& masks, bool whole) {
  CpuSet any;
  for (const CpuSet& mask : masks) any |= mask;
  std::vector<Unit> units;
  for (const Core& core : topology.cores) {
    const CpuSet cpus = core.cpus & any;
    if (cpus.empty()) continue;
    if (Ranks ranks = ranks_with(cpus, masks); whole && !ranks.empty()) {
      units.push_back({cpus, std::move(ranks)});
      continue;
    }
    std::map<Ranks, CpuSet> pieces;
    for (const Pu cpu : cpus) pieces[ranks_with(CpuSet{cpu}, masks)].insert(cpu);
    for (auto& [ranks, piece] : pieces) units.push_back({std::move(piece), ranks});
  }
  return units;
}

/// Returns 0 if the CPUs are near the rank's GPU, 1 if they are in its node, 2 if in its package, else 3.
int distance_to(const Topology& topology, const CpuSet& cpus, const Preference& place) {
  const auto core = std::find_if(topology.cores.begin(), topology.cores.end(),
                                 [&](const Core& c) { return c.cpus.intersects(cpus); });
  if (place.cpus.intersects(cpus)) return 0;
  if (place.near && core->node == place.near) return 1;
  return place.package && core->package == *place.package ? 2 : 3;
}

class MaskDivision {
 public:
  MaskDivision(const Topology& topology, const std::vector<CpuSet>& masks,
               const std::vector<Preference>& places, bool whole)
      : masks_(masks), units_(units_of(topology, masks, whole)), load_(masks.size()) {
    std::map<std::pair<Ranks, std::vector<int>>, std::size_t> known;
    for (std::size_t unit = 0; unit < units_.size(); ++unit) {
      std::vector<int> distance;
      for (const Preference& place : places)
        distance.push_back(distance_to(topology, units_[unit].cpus, place));
      const auto [at, is_new] = known.try_emplace({units_[unit].ranks, distance}, regions_.size());
      if (is_new) regions_.push_back({units_[unit].ranks, distance, {}, std::vector<int>(masks.size())});
      regions_[at->second].units.push_back(unit);
    }
    for (Region& region : regions_) {
      for (std::size_t i = 0; i < region.units.size(); ++i) take(region, nearest_with_least(region), 1);
    }
    while (even_out()) {
    }
    while (exchange()) {
    }
  }

  /// Returns a rank that has nothing, if there is one.
  std::optional<std::size_t> without_any() const {
    const auto found = std::find(load_.begin(), load_.end(), 0);
    return found == load_.end() ? std::nullopt
                                : std::optional(static_cast<std::size_t>(found - load_.begin()));
  }

  /// Returns the ranks that compete with this one, and the number of units that they have.
  std::pair<Ranks, int> rivals_of(std::size_t rank) const {
    std::set<std::size_t> rivals{rank};
    for (std::size_t before = 0; before != rivals.size();) {
      before = rivals.size();
      for (const Region& region : regions_) {
        if (std::none_of(region.ranks.begin(), region.ranks.end(),
                         [&](std::size_t other) { return rivals.contains(other); }))
          continue;
        for (const std::size_t other : region.ranks) {
          if (region.taken[other] > 0) rivals.insert(other);
        }
      }
    }
    int units = 0;
    for (const std::size_t rival : rivals) units += load_[rival];
    return {{rivals.begin(), rivals.end()}, units};
  }

  /// Returns each rank's CPUs. The ranks of a region get runs of it, in the order in which their masks lie.
  std::vector<CpuSet> cpus() const {
    std::vector<CpuSet> cpus(masks_.size());
    for (const Region& region : regions_) {
      Ranks order = region.ranks;
      std::stable_sort(order.begin(), order.end(),
                       [&](std::size_t a, std::size_t b) { return middle(a) < middle(b); });
      auto unit = region.units.begin();
      for (const std::size_t rank : order) {
        for (int i = 0; i < region.taken[rank]; ++i) cpus[rank] |= units_[*unit++].cpus;
      }
    }
    return cpus;
  }

 private:
  void take(Region& region, std::size_t rank, int units) {
    region.taken[rank] += units;
    load_[rank] += units;
  }

  std::size_t nearest_with_least(const Region& region) const {
    return *std::min_element(region.ranks.begin(), region.ranks.end(), [&](std::size_t a, std::size_t b) {
      return std::pair(region.distance[a], load_[a]) < std::pair(region.distance[b], load_[b]);
    });
  }

  /// Returns the mean position of the units that the rank may have.
  double middle(std::size_t rank) const {
    double sum = 0;
    double count = 0;
    for (std::size_t unit = 0; unit < units_.size(); ++unit) {
      if (!masks_[rank].contains(units_[unit].cpus)) continue;
      sum += static_cast<double>(unit);
      ++count;
    }
    return count > 0 ? sum / count : 0;
  }

  /// Returns the region in which `from` can give `to` a unit at the least cost in distance; null: none.
  Region* region_between(std::size_t from, std::size_t to) {
    Region* best = nullptr;
    for (Region& region : regions_) {
      if (region.taken[from] == 0 ||
          std::find(region.ranks.begin(), region.ranks.end(), to) == region.ranks.end())
        continue;
      const auto cost = [&](const Region& r) { return r.distance[to] - r.distance[from]; };
      if (best == nullptr || cost(region) < cost(*best)) best = &region;
    }
    return best;
  }

  /// Moves a unit along the shortest chain of ranks from one with more units to one with at least two fewer,
  /// and returns true; false if there is no such chain. Then the loads are as even as the masks let them be.
  bool even_out() {
    Ranks order(load_.size());
    std::iota(order.begin(), order.end(), 0U);
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return load_[a] < load_[b]; });
    for (const std::size_t poor : order) {
      // Find the ranks that can give to the poor rank, then those that can give to these, and so on.
      std::vector<std::optional<std::size_t>> gives_to(load_.size());
      Ranks reached{poor};
      for (std::size_t next = 0; next < reached.size(); ++next) {
        const std::size_t to = reached[next];
        for (std::size_t from = 0; from < load_.size(); ++from) {
          if (from == poor || gives_to[from] || region_between(from, to) == nullptr) continue;
          gives_to[from] = to;
          reached.push_back(from);
        }
      }
      const auto rich = std::find_if(reached.begin(), reached.end(),
                                     [&](std::size_t rank) { return load_[rank] >= load_[poor] + 2; });
      if (rich == reached.end()) continue;
      for (std::size_t from = *rich; from != poor; from = *gives_to[from]) {
        Region& region = *region_between(from, *gives_to[from]);
        take(region, from, -1);
        take(region, *gives_to[from], 1);
      }
      return true;
    }
    return false;
  }

  /// Lets two ranks exchange a unit if that brings both together nearer to their places, and returns true.
  bool exchange() {
    for (std::size_t a = 0; a < load_.size(); ++a) {
      for (std::size_t b = a + 1; b < load_.size(); ++b) {
        Region* const to_b = region_between(a, b);
        Region* const to_a = region_between(b, a);
        if (to_a == nullptr || to_b == nullptr) continue;
        if (to_b->distance[b] - to_b->distance[a] + to_a->distance[a] - to_a->distance[b] >= 0) continue;
        take(*to_b, a, -1);
        take(*to_b, b, 1);
        take(*to_a, b, -1);
        take(*to_a, a, 1);
        return true;
      }
    }
    return false;
  }

  const std::vector<CpuSet>& masks_;
  std::vector<Unit> units_;
  std::vector<Region> regions_;
  std::vector<int> load_;  ///< units by rank
};

/// Returns the error of ranks that have fewer cores in their masks than they are.
Error too_few_in_masks(const Ranks& ranks, int cores, const std::vector<CpuSet>& masks,
                       const Allowed& allowed) {
  CpuSet cpus;
  for (const std::size_t rank : ranks) cpus |= masks[rank];
  return {
      Exit::infeasible,
      format_text("{} {} {} in {} ({}), and each rank needs one of its own",
                  ranks.size() == 1 ? format_text("rank {}", ranks.front())
                                    : format_text("ranks {}", join_text(ranks, ",")),
                  ranks.size() == 1 ? "has" : "have", print_count(static_cast<std::size_t>(cores), "core"),
                  ranks.size() == 1 ? "its mask" : "their masks", cpus.empty() ? "no CPU" : print_cpus(cpus)),
      allowed.more_cpus.empty() ? "widen the masks, or run fewer ranks"
                                : format_text("give the job more: {}", allowed.more_cpus)};
}

}  // namespace

std::vector<MaskPart> mask_parts(const Topology& topology, const std::vector<CpuSet>& masks,
                                 const std::vector<Preference>& places, const Allowed& allowed) {
  std::optional<MaskDivision> division(std::in_place, topology, masks, places, true);
  if (division->without_any()) division.emplace(topology, masks, places, false);
  if (const auto rank = division->without_any()) {
    const auto [rivals, cores] = division->rivals_of(*rank);
    throw too_few_in_masks(rivals, cores, masks, allowed);
  }
  const std::vector<CpuSet> cpus = division->cpus();
  std::vector<MaskPart> parts;
  for (std::size_t rank = 0; rank < masks.size(); ++rank) {
    auto part = std::find_if(parts.begin(), parts.end(), [&](const MaskPart& other) {
      return masks[other.ranks.front()] == masks[rank];
    });
    if (part == parts.end()) part = parts.insert(parts.end(), MaskPart());
    part->ranks.push_back(rank);
    part->cpus |= cpus[rank];
  }
  return parts;
}

}  // namespace zf
