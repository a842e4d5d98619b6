#include "tuner/split.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cassert>
#include <map>

namespace zf {
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

int core_count(const Home& home) { return static_cast<int>(home.cores.size()); }

/// Sizes that the coarse grid tries, up to `largest`, which is always the last.
std::vector<int> coarse_sizes(int largest) {
  std::vector<int> sizes{1};
  for (int power = 2; power < largest; power *= 2) {
    sizes.push_back(power);
    if (power + power / 2 < largest) sizes.push_back(power + power / 2);
  }
  if (largest > 1) sizes.push_back(largest);
  return sizes;
}

int largest_pool(const std::vector<Home>& homes) {
  assert(!homes.empty());
  const auto smallest = std::min_element(
      homes.begin(), homes.end(), [](const Home& a, const Home& b) { return core_count(a) < core_count(b); });
  return std::max(1, core_count(*smallest) - 1);
}

/// Which cores of a home run the pool: `count` of them, by placement. Always taken from an end, so that the
/// others are the beginning of the home (compact) or of each of its L3 groups (spread).
std::vector<bool> pool_members(const Home& home, int count, Placement placement) {
  std::vector<bool> member(home.cores.size());
  if (placement == Placement::compact) {
    std::fill(member.end() - count, member.end(), true);
    return member;
  }
  std::map<int, std::vector<int>> groups;
  for (int core = 0; core < core_count(home); ++core) groups[home.cores[at(core)].l3].push_back(core);
  std::vector<std::vector<int>> order;
  for (const auto& [l3, cores] : groups) order.push_back(cores);
  // Highest last core first: the first round then starts where a compact pool starts.
  std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) { return a.back() > b.back(); });
  while (count > 0) {
    for (std::vector<int>& group : order) {
      if (group.empty() || count == 0) continue;
      member[at(group.back())] = true;
      group.pop_back();
      --count;
    }
  }
  return member;
}

bool has_siblings(const std::vector<Home>& homes) {
  return std::any_of(homes.begin(), homes.end(), [](const Home& home) {
    return std::any_of(home.cores.begin(), home.cores.end(),
                       [](const HomeCore& core) { return core.cpus.size() > 1; });
  });
}

/// Whether a spread pool of this size is another pool than the compact one, and leaves a choice at all.
bool spread_differs(const std::vector<Home>& homes, int pool_cores) {
  return std::any_of(homes.begin(), homes.end(), [&](const Home& home) {
    return pool_cores < core_count(home) - 1 && pool_members(home, pool_cores, Placement::spread) !=
                                                    pool_members(home, pool_cores, Placement::compact);
  });
}

}  // namespace

RankSplit split_home(const Home& home, const SplitShape& shape) {
  assert(!home.cores.empty());
  RankSplit split;
  split.mems = home.mems;
  split.shared = home.shared;
  if (home.shared) {
    split.training = split.optimizer = home.cpus();
    split.pool.assign(split.optimizer.begin(), split.optimizer.end());
    split.pool_cores = core_count(home);
    return split;
  }

  split.pool_cores = std::clamp(shape.pool_cores, 1, core_count(home) - 1);
  split.reserved_cores = core_count(home) - split.pool_cores;
  const std::vector<bool> member = pool_members(home, split.pool_cores, shape.placement);
  std::vector<Pu> training;
  for (std::size_t core = 0; core < home.cores.size(); ++core) {
    const CpuSet& pus = home.cores[core].cpus;
    if (!member[core]) {
      training.insert(training.end(), pus.begin(), pus.end());
      continue;
    }
    // Siblings that the pool leaves out stay idle: beside a pool thread they would slow it down.
    const int siblings = static_cast<int>(pus.size());
    const int wanted = shape.pool_pus_per_core == 0 ? siblings : std::min(siblings, shape.pool_pus_per_core);
    split.pool.insert(split.pool.end(), pus.begin(), pus.begin() + wanted);
  }
  split.training = CpuSet(std::move(training));
  split.optimizer = CpuSet(split.pool);
  return split;
}

Split split_of(const std::vector<Home>& homes, const SplitShape& shape) {
  Split split{shape,
              fmt::format("pool {}, {}", shape.pool_cores,
                          shape.placement == Placement::compact ? "compact" : "spread"),
              {}};
  if (shape.pool_pus_per_core != 1) split.label += ", all siblings";
  for (const Home& home : homes) split.ranks.push_back(split_home(home, shape));
  return split;
}

std::vector<SplitShape> coarse_shapes(const std::vector<Home>& homes) {
  std::vector<SplitShape> shapes;
  for (const int size : coarse_sizes(largest_pool(homes))) {
    for (const int pus_per_core : {1, 0}) {
      if (pus_per_core == 0 && !has_siblings(homes)) continue;
      shapes.push_back({size, pus_per_core, Placement::compact});
      if (spread_differs(homes, size)) shapes.push_back({size, pus_per_core, Placement::spread});
    }
  }
  return shapes;
}

std::vector<SplitShape> refined_shapes(const std::vector<Home>& homes, const SplitShape& knee,
                                       const std::vector<SplitShape>& tried) {
  std::vector<int> known = coarse_sizes(largest_pool(homes));
  for (const SplitShape& shape : tried) {
    if (shape.placement == knee.placement && shape.pool_pus_per_core == knee.pool_pus_per_core) {
      known.push_back(shape.pool_cores);
    }
  }
  int below = 0;
  int above = largest_pool(homes) + 1;
  for (const int size : known) {
    if (size < knee.pool_cores) below = std::max(below, size);
    if (size > knee.pool_cores) above = std::min(above, size);
  }

  std::vector<SplitShape> shapes;
  const auto add_between = [&](int low, int high) {
    const int inside = high - low - 1;
    const int count = std::min(inside, kRefinedPerSide);
    for (int i = 1; i <= count; ++i) {
      shapes.push_back({low + (high - low) * i / (count + 1), knee.pool_pus_per_core, knee.placement});
    }
  };
  add_between(below, knee.pool_cores);
  add_between(knee.pool_cores, above);
  return shapes;
}

}  // namespace zf
