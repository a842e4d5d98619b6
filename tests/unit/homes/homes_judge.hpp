// The best of all divisions of a small machine. The judge shares no code with homes_of(): it counts how many
// cores of each zone of the machine a rank gets, in every way there is.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>
#include "base/format.hpp"

namespace zf {

/// The points that an expert looks at. Less is better. In each list the worst rank comes first.
struct DivisionVerdict {
  std::vector<int> far;       ///< minus the cores near the rank's GPU, up to an even share
  std::vector<int> outside;   ///< minus the cores in the package of the rank's GPU, up to an even share
  std::vector<int> nodes;     ///< NUMA nodes touched
  std::vector<int> packages;  ///< packages touched
  std::vector<int> sizes;     ///< minus the cores
  std::vector<int> fast;      ///< minus the fast cores
  auto operator<=>(const DivisionVerdict&) const = default;
};

/// Cores that are alike in all that counts: in one package and one NUMA node, near the same GPUs, of one
/// kind.
struct Zone {
  int cores = 0;
  int package = 0;
  int node = 0;
  bool is_fast = false;
};

/// A division: the number of cores of each rank in each zone.
using Counts = std::vector<std::vector<int>>;

/// The zones of a machine, and which of them are near each rank's GPU; none: it has no GPU.
struct Zones {
  std::vector<Zone> all;
  std::vector<std::set<std::size_t>> near;  ///< by rank

  int ranks() const { return static_cast<int>(near.size()); }
  int cores() const {
    int sum = 0;
    for (const Zone& zone : all) sum += zone.cores;
    return sum;
  }
};

inline DivisionVerdict verdict_on(const Zones& zones, const Counts& counts) {
  DivisionVerdict verdict;
  const int even_share = zones.cores() / zones.ranks();
  for (std::size_t rank = 0; rank < counts.size(); ++rank) {
    std::map<int, int> packages;
    std::set<int> nodes;
    int near = 0;
    int fast = 0;
    int size = 0;
    for (std::size_t zone = 0; zone < zones.all.size(); ++zone) {
      const int count = counts[rank][zone];
      if (count == 0) continue;
      size += count;
      nodes.insert(zones.all[zone].node);
      packages[zones.all[zone].package] += count;
      if (zones.near[rank].contains(zone)) near += count;
      if (zones.all[zone].is_fast) fast += count;
    }
    if (!zones.near[rank].empty()) {
      verdict.far.push_back(-std::min(near, even_share));
      verdict.outside.push_back(
          -std::min(packages[zones.all[*zones.near[rank].begin()].package], even_share));
    }
    verdict.nodes.push_back(static_cast<int>(nodes.size()));
    verdict.packages.push_back(static_cast<int>(
        std::count_if(packages.begin(), packages.end(), [](const auto& p) { return p.second > 0; })));
    verdict.sizes.push_back(-size);
    verdict.fast.push_back(-fast);
  }
  for (auto* list :
       {&verdict.far, &verdict.outside, &verdict.nodes, &verdict.packages, &verdict.sizes, &verdict.fast})
    std::sort(list->begin(), list->end(), std::greater<>());
  return verdict;
}

/// Tries every division into homes that differ by at most two cores, in which no rank gives away one of fewer
/// than 8.
class Judge {
 public:
  explicit Judge(Zones zones) : zones_(std::move(zones)), total_(zones_.cores()) {
    held_.assign(zones_.near.size(), 0);
    counts_.assign(zones_.near.size(), std::vector<int>(zones_.all.size()));
    for (const Zone& zone : zones_.all) left_.push_back(zone.cores);
    give(0, 0, 0);
  }
  const DivisionVerdict& best() const { return *best_; }

 private:
  void give(std::size_t rank, std::size_t zone, int held) {
    if (rank == counts_.size()) {
      if (std::any_of(left_.begin(), left_.end(), [](int left) { return left > 0; })) return;
      const auto [least, most] = std::minmax_element(held_.begin(), held_.end());
      if (*most - *least > 2) return;
      DivisionVerdict verdict = verdict_on(zones_, counts_);
      if (!best_ || verdict < *best_) best_ = std::move(verdict);
      return;
    }
    const int base = total_ / zones_.ranks();
    const int least = base - (base < 8 ? 0 : 1);
    const int most = base + 2;
    if (zone == zones_.all.size()) {
      held_[rank] = held;
      if (held >= least) give(rank + 1, 0, 0);
      return;
    }
    for (int count = 0; count <= left_[zone] && held + count <= most; ++count) {
      counts_[rank][zone] = count;
      left_[zone] -= count;
      give(rank, zone + 1, held + count);
      left_[zone] += count;
    }
    counts_[rank][zone] = 0;
  }

  Zones zones_;
  int total_;
  Counts counts_;
  std::vector<int> held_;
  std::vector<int> left_;
  std::optional<DivisionVerdict> best_;
};

inline std::string words_of(const Zones& zones, const Counts& counts) {
  std::string words = "cores@package";
  for (const Zone& zone : zones.all)
    words += format_text(" {}{}@{}", zone.cores, zone.is_fast ? " fast" : "", zone.package);
  for (std::size_t rank = 0; rank < counts.size(); ++rank) {
    words += format_text("; rank {}", rank);
    for (const std::size_t zone : zones.near[rank]) words += format_text(" near {}", zone);
    words += " has";
    for (const int count : counts[rank]) words += format_text(" {}", count);
  }
  return words;
}

}  // namespace zf
