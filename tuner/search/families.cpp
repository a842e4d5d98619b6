#include "search/families.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "search/controls.hpp"

namespace zf {
namespace {

int fewest_cores(const std::vector<Home>& homes) {
  int cores = std::numeric_limits<int>::max();
  for (const Home& home : homes) cores = std::min(cores, static_cast<int>(home.cores.size()));
  return std::max(2, cores);
}

int fewest_l3_groups(const std::vector<Home>& homes) {
  std::size_t fewest = std::numeric_limits<int>::max();
  for (const Home& home : homes) {
    std::set<int> groups;
    for (const HomeCore& core : home.cores) groups.insert(home.shared_cpus.empty() ? core.l3 : 0);
    fewest = std::min(fewest, groups.size());
  }
  return static_cast<int>(fewest);
}

bool same_family(const SplitShape& a, const SplitShape& b) { return resized(a, 1) == resized(b, 1); }

std::vector<SplitShape> families_of(const std::vector<Home>& homes) {
  bool siblings = false;
  std::set<int> makes;
  std::set<int> l3_groups;
  for (const Home& home : homes) {
    if (!home.shared_cpus.empty()) continue;  // its threads have no cores of their own
    for (const HomeCore& core : home.cores) {
      siblings = siblings || (core.cpus.size() > 1 && !home.at_quota);
      makes.insert(core.make);
      l3_groups.insert(core.l3);
    }
  }
  std::vector<SplitShape> families;
  for (const bool shared : {false, true}) {
    for (const int pus_per_core : {1, 0}) {
      for (const Placement placement : {Placement::compact, Placement::spread}) {
        if (pus_per_core == 0 && !siblings) continue;
        if (placement == Placement::spread && l3_groups.size() < 2) continue;
        families.push_back({.pool_pus_per_core = pus_per_core, .placement = placement, .shared = shared});
      }
    }
    if (makes.size() > 1) {
      for (const int make : makes) families.push_back({.pool_make = make, .shared = shared});
    }
  }
  return families;
}

}  // namespace

SplitShape resized(SplitShape shape, int pool_cores) {
  shape.pool_cores = pool_cores;
  shape.control = Control::none;
  return shape;
}

int mixed_l3_groups(const std::vector<Home>& homes, const Split& split) {
  int mixed = 0;
  for (std::size_t rank = 0; rank < homes.size(); ++rank) {
    std::set<int> with_pool;
    std::set<int> with_training;
    for (const HomeCore& core : homes[rank].cores) {
      for (const Pu pu : core.cpus) {
        if (split.ranks[rank].optimizer.contains(pu)) with_pool.insert(core.l3);
        if (split.ranks[rank].training.contains(pu)) with_training.insert(core.l3);
      }
    }
    mixed += static_cast<int>(std::count_if(with_pool.begin(), with_pool.end(),
                                            [&](int group) { return with_training.contains(group); }));
  }
  return mixed;
}

int pool_of(const TriedSplit& one) {
  int pool = std::numeric_limits<int>::max();
  for (const RankSplit& rank : one.split.ranks) pool = std::min(pool, rank.pool_cores);
  return pool;
}

Families::Families(const std::vector<Home>& homes, const std::vector<TriedSplit>& tried,
                   const Schedule& schedule)
    : homes_(homes),
      tried_(tried),
      schedule_(schedule),
      cores_(fewest_cores(homes)),
      l3_groups_(fewest_l3_groups(homes)),
      all_(families_of(homes)) {}

bool Families::is_tried(const Split& split) const {
  return std::any_of(tried_.begin(), tried_.end(),
                     [&](const TriedSplit& one) { return same_cpus(split, one.split); });
}

int Families::most_of(const SplitShape& family) const {
  int most = family.shared ? cores_ : cores_ - 1;
  if (!family.pool_make) return most;
  for (const Home& home : homes_) {
    const auto count = std::count_if(home.cores.begin(), home.cores.end(),
                                     [&](const HomeCore& core) { return core.make == *family.pool_make; });
    most = std::min(most, std::max(1, static_cast<int>(count)));
  }
  return most;
}

bool Families::is_even(const SplitShape& family, int pool) const {
  return family.placement == Placement::compact || pool < l3_groups_ || pool % l3_groups_ == 0;
}

std::vector<Point> Families::points_of(const SplitShape& family) const {
  std::map<int, Point> points;
  for (const TriedSplit& one : tried_) {
    if (one.split.shape.control == Control::unbound || !same_family(one.split.shape, family)) continue;
    points[pool_of(one)] = {pool_of(one), one.step_ns, one.training_ns};
  }
  std::vector<Point> sorted;
  for (const auto& [pool, point] : points) sorted.push_back(point);
  return sorted;
}

double Families::best_roofline(const SplitShape& family) const {
  double best = std::numeric_limits<double>::infinity();
  for (const TriedSplit& one : tried_) {
    if (same_family(one.split.shape, family)) best = std::min(best, one.roofline_ns);
  }
  return best;
}

/// Returns the shortest step that a pool of that many cores could have: as fast as the fastest one, and no
/// core faster than in any pool. Large pools of siblings may all be as fast as the memory, so their cores may
/// also be kFamilyGain times as fast as those of a plain pool.
double Families::best_step(const SplitShape& family, int pool) const {
  double fastest = std::numeric_limits<double>::infinity();
  double work = fastest;
  for (const TriedSplit& one : tried_) {
    if (one.split.shape.control == Control::unbound) continue;
    fastest = std::min(fastest, one.step_ns);
    const bool same = one.split.shape.pool_pus_per_core == family.pool_pus_per_core;
    if (!same && family.pool_pus_per_core == 1) continue;
    work = std::min(work, one.step_ns * pool_of(one) / (same ? 1 : kFamilyGain));
  }
  return std::max(fastest, work / pool);
}

/// Returns training's time beside a pool of `pool` cores at best, if it takes `training_ns` beside
/// `measured` cores.
double Families::best_training(const SplitShape& family, const Point& measured, int pool) const {
  if (family.shared || pool >= measured.pool) return measured.training_ns;
  return measured.training_ns * (cores_ - measured.pool) / (cores_ - pool);
}

Forecast Families::forecast(const SplitShape& family, const std::vector<Point>& points, int pool) const {
  const auto above =
      std::find_if(points.begin(), points.end(), [&](const Point& point) { return point.pool >= pool; });
  if (above == points.end() || above == points.begin()) {
    const Point& nearest = above == points.end() ? points.back() : points.front();
    const bool smaller = pool < nearest.pool;
    return {
        smaller ? std::max(nearest.step_ns, best_step(family, pool)) : nearest.step_ns * nearest.pool / pool,
        best_training(family, nearest, pool)};
  }
  const Point& high = *above;
  const Point& low = *(above - 1);
  const double in_step = (1.0 / low.pool - 1.0 / pool) / (1.0 / low.pool - 1.0 / high.pool);
  const double in_training = static_cast<double>(pool - low.pool) / (high.pool - low.pool);
  return {low.step_ns + in_step * (high.step_ns - low.step_ns),
          low.training_ns + in_training * (high.training_ns - low.training_ns)};
}

double Families::period(const Forecast& times) const {
  return period_of(times.training_ns, times.step_ns, schedule_);
}

}  // namespace zf
