#include "homes/split.hpp"

#include <algorithm>
#include <cassert>
#include <map>
#include <utility>

#include "base/format.hpp"
#include "homes/index.hpp"
#include "plan/reserved_perc.hpp"

namespace zf {
namespace {

int core_count(const Home& home) { return static_cast<int>(home.cores.size()); }

/// Returns the indexes of a home's cores in the order in which a pool takes them. It takes them from the end,
/// so that the rest is the beginning of the home (compact) or of each of its L3 groups (spread).
std::vector<int> pool_order(const Home& home, Placement placement) {
  std::vector<int> order;
  if (placement == Placement::compact) {
    for (int core = core_count(home) - 1; core >= 0; --core) order.push_back(core);
    return order;
  }
  std::map<int, std::vector<int>> by_l3;
  for (int core = 0; core < core_count(home); ++core) by_l3[home.cores[at(core)].l3].push_back(core);
  std::vector<std::vector<int>> groups;
  for (const auto& [l3, cores] : by_l3) groups.push_back(cores);
  // The group with the highest last core comes first, so that a spread pool starts where a compact one does.
  std::sort(groups.begin(), groups.end(), [](const auto& a, const auto& b) { return a.back() > b.back(); });
  while (order.size() < home.cores.size()) {
    for (std::vector<int>& group : groups) {
      if (group.empty()) continue;
      order.push_back(group.back());
      group.pop_back();
    }
  }
  return order;
}

/// Returns for each core of a home whether it runs the pool. `count` cores do: first those of the make, then
/// slow ones before fast ones, and among equals by placement. Slow cores lose little there,
/// because the pool mostly waits for memory; training gains most by fast ones.
std::vector<bool> pool_members(const Home& home, int count, Placement placement, std::optional<int> make) {
  std::vector<int> order = pool_order(home, placement);
  const auto key = [&](int core) {
    const HomeCore& own = home.cores[at(core)];
    return std::pair(make && own.make != *make, own.kind);
  };
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return key(a) < key(b); });
  std::vector<bool> member(home.cores.size());
  for (int i = 0; i < count; ++i) member[at(order[at(i)])] = true;
  return member;
}

/// Returns for each core of a home whether it trains. The fastest `count` cores outside the pool do; among
/// equally fast cores, the first.
std::vector<bool> training_members(const Home& home, const std::vector<bool>& pool, int count) {
  std::vector<int> order;
  for (int core = 0; core < core_count(home); ++core) {
    if (!pool[at(core)]) order.push_back(core);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return home.cores[at(a)].kind > home.cores[at(b)].kind; });
  std::vector<bool> member(home.cores.size());
  for (int i = 0; i < count; ++i) member[at(order[at(i)])] = true;
  return member;
}

/// Returns how many cores of a home run the pool; a control has its own rule. At least one core is left for
/// training.
int pool_cores_of(const SplitShape& shape, int cores) {
  int pool = shape.pool_cores;
  if (shape.control == Control::half) pool = cores / 2;  // DeepSpeed rounds training's half up
  if (shape.control == Control::eighty_twenty) {
    const double left = 1 - 0.8;  // as SuperOffload computes it: a little less than 0.2
    pool = cores - static_cast<int>(left * cores);
  }
  if (shape.control == Control::shared) pool = cores;
  return std::clamp(pool, 1, shape.shared ? cores : cores - 1);
}

RankSplit unbound_home(const Home& home, const CpuSet& everything, const NodeSet& mems) {
  RankSplit split;
  split.home = split.training = split.optimizer = everything;
  for (const HomeCore& core : home.cores) split.pool.push_back(core.cpus.first());
  split.home_cores = split.reserved_cores = split.pool_cores = core_count(home);
  split.mems = mems;
  split.gpu = home.gpu;
  split.unbound = true;
  return split;
}

/// Splits a home of CPUs that neighbours share: it divides the threads, and leaves none idle.
RankSplit split_threads(const Home& home, const SplitShape& shape) {
  RankSplit split;
  split.home = split.training = split.optimizer = home.shared_cpus;
  split.home_cores = core_count(home);
  split.mems = home.mems;
  split.gpu = home.gpu;
  split.floats = true;
  split.shared = home.shared || shape.shared;
  split.pool_cores = home.shared ? 1 : pool_cores_of(shape, split.home_cores);
  if (!split.shared) split.reserved_cores = split.home_cores - split.pool_cores;
  split.pool.assign(at(split.pool_cores), home.shared_cpus.first());
  return split;
}

std::string label_of(const SplitShape& shape) {
  switch (shape.control) {
    case Control::unbound:
      return "unbound";
    case Control::half:
      return "half and half";
    case Control::eighty_twenty:
      return "80/20";
    case Control::shared:
      return "shared home";
    case Control::none:
      break;
  }
  std::string label = format_text("{}pool {}, {}", shape.shared ? "shared home, " : "", shape.pool_cores,
                                  name_of(shape.placement));
  if (shape.pool_pus_per_core != 1) label += ", all siblings";
  if (shape.pool_make) label += format_text(", make {}", *shape.pool_make);
  if (shape.reserved_cores != 0) label += format_text(", {} reserved", shape.reserved_cores);
  return label;
}

}  // namespace

RankSplit split_home(const Home& home, const SplitShape& shape) {
  assert(!home.cores.empty() && shape.control != Control::unbound);
  if (!home.shared_cpus.empty()) return split_threads(home, shape);
  RankSplit split;
  split.home = home.cpus();
  split.home_cores = core_count(home);
  split.mems = home.mems;
  split.shared = home.shared || shape.shared;
  split.gpu = home.gpu;
  if (home.shared) {
    split.training = split.optimizer = home.cpus();
    split.pool.assign(split.optimizer.begin(), split.optimizer.end());
    split.pool_cores = core_count(home);
    return split;
  }

  split.pool_cores = pool_cores_of(shape, core_count(home));
  const int left = shape.shared ? 0 : core_count(home) - split.pool_cores;
  const int wanted = shape.reserved_cores == 0 ? left : std::min(left, shape.reserved_cores);
  split.idle_cores = left - wanted;
  const std::vector<bool> member = pool_members(home, split.pool_cores, shape.placement, shape.pool_make);
  const std::vector<bool> trains = training_members(home, member, wanted);
  std::vector<Pu> training;
  for (std::size_t core = 0; core < home.cores.size(); ++core) {
    const CpuSet& pus = home.cores[core].cpus;
    if (!member[core]) {
      if (!trains[core]) continue;
      training.insert(training.end(), pus.begin(), pus.end());
      ++split.reserved_cores;
      continue;
    }
    // Siblings that the pool leaves out stay idle: a thread on them would slow the pool thread down.
    const int siblings = static_cast<int>(pus.size());
    const int per_core = home.at_quota ? 1 : shape.pool_pus_per_core;
    const int threads = per_core == 0 ? siblings : std::min(siblings, per_core);
    split.pool.insert(split.pool.end(), pus.begin(), pus.begin() + threads);
  }
  split.training = split.shared ? split.home : CpuSet(std::move(training));
  split.optimizer = CpuSet(split.pool);
  return split;
}

SplitShape control_shape(Control control) {
  SplitShape shape;
  shape.control = control;
  shape.shared = control == Control::shared;
  return shape;
}

Split split_of(const std::vector<Home>& homes, const SplitShape& shape) {
  Split split{shape, label_of(shape), {}};
  if (shape.control != Control::unbound) {
    for (const Home& home : homes) split.ranks.push_back(split_home(home, shape));
    return split;
  }
  CpuSet everything;
  NodeSet mems;
  for (const Home& home : homes) {
    everything |= home.cpus();
    mems |= home.mems;
  }
  for (const Home& home : homes) split.ranks.push_back(unbound_home(home, everything, mems));
  return split;
}

int most_pool_threads(const Split& split) {
  std::size_t most = 0;
  for (const RankSplit& rank : split.ranks) most = std::max(most, rank.pool.size());
  return static_cast<int>(most);
}

RankBinding binding_of_split(int rank, const RankSplit& split) {
  RankBinding binding;
  binding.rank = rank;
  binding.gpu = split.gpu;
  binding.training.cpus = split.training;
  binding.home = {split.home, split.home_cores};
  binding.training.threads = split.shared ? split.home_cores : split.reserved_cores;
  binding.optimizer.cpus = split.optimizer;
  binding.optimizer.mems = split.mems;
  if (split.floats) binding.optimizer.threads = static_cast<int>(split.pool.size());
  binding.pt_reserved_cores = split.reserved_cores;
  // DeepSpeed counts the CPUs of both sides, without idle siblings.
  binding.pt_reserved_cores_perc = reserved_perc(static_cast<int>(split.training.size()),
                                                 static_cast<int>((split.training | split.optimizer).size()));
  binding.shared = split.shared;
  return binding;
}

}  // namespace zf
