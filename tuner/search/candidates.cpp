#include "search/candidates.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>

#include "search/judgement.hpp"

namespace zf {
namespace {

/// The first small pool has this part of the cores.
constexpr int kProbe = 8;
/// How many times faster a family that was not tried could step than the fastest roofline loop so far:
/// siblings and spread pools may use more of the memory's bandwidth.
constexpr double kFamilyGain = 1.3;
/// A split that loses at most this if the job is not as told is safe.
constexpr double kSafe = 0.05;

int core_count(const Home& home) { return static_cast<int>(home.cores.size()); }

int largest_pool(const std::vector<Home>& homes) {
  int cores = std::numeric_limits<int>::max();
  for (const Home& home : homes) cores = std::min(cores, core_count(home));
  return std::max(1, cores - 1);
}

int fewest_l3_groups(const std::vector<Home>& homes) {
  std::size_t fewest = std::numeric_limits<int>::max();
  for (const Home& home : homes) {
    std::set<int> groups;
    for (const HomeCore& core : home.cores) groups.insert(core.l3);
    fewest = std::min(fewest, groups.size());
  }
  return static_cast<int>(fewest);
}

bool same_cpus(const Split& a, const Split& b) { return a.ranks == b.ranks; }

bool is_among(const Split& split, const std::vector<Split>& others) {
  return std::any_of(others.begin(), others.end(),
                     [&](const Split& other) { return same_cpus(split, other); });
}

/// Returns the shape with another pool size. The result is no control, even if `shape` is one.
SplitShape resized(SplitShape shape, int pool_cores) {
  shape.pool_cores = pool_cores;
  shape.control = Control::none;
  return shape;
}

bool same_family(const SplitShape& a, const SplitShape& b) { return resized(a, 1) == resized(b, 1); }

/// Returns all shapes of pools that differ on these homes, at size 1. The plain shapes come first: divided
/// homes, then shared ones.
std::vector<SplitShape> families_of(const std::vector<Home>& homes) {
  bool siblings = false;
  std::set<int> kinds;
  std::set<int> l3_groups;
  for (const Home& home : homes) {
    for (const HomeCore& core : home.cores) {
      siblings = siblings || (core.cpus.size() > 1 && !home.at_quota);
      kinds.insert(core.kind);
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
    if (kinds.size() > 1) {
      for (const int kind : kinds) families.push_back({.pool_kind = kind, .shared = shared});
    }
  }
  return families;
}

/// The measured times of one pool size of a family.
struct Point {
  int pool = 0;
  double step_ns = 0;
  double training_ns = 0;
};

/// The times that a family is expected to take at a size.
struct Forecast {
  double step_ns = 0;
  double training_ns = 0;
};

struct Proposal {
  SplitShape shape;
  double period_ns = 0;  ///< the shortest period that it could reach
};

/// Works out promising_splits().
class SplitProposer {
 public:
  SplitProposer(const std::vector<Home>& homes, const std::vector<TriedSplit>& tried,
                const Schedule& schedule, double tie, SharedPools shared_pools)
      : homes_(homes),
        tried_(tried),
        schedule_(schedule),
        tie_(tie),
        cores_(largest_pool(homes) + 1),
        l3_groups_(fewest_l3_groups(homes)),
        shared_pools_(shared_pools) {
    for (const TriedSplit& one : tried) {
      if (one.split.shape.control == Control::unbound) continue;
      if (best_ == nullptr || one.period_ns < best_->period_ns) best_ = &one;
    }
  }

  std::vector<Split> splits(std::size_t most) {
    const bool one_core =
        std::any_of(homes_.begin(), homes_.end(), [](const Home& home) { return home.shared; });
    if (best_ == nullptr || one_core) return {};
    for (const SplitShape& family : families_of(homes_)) propose_in_family(family);
    propose_idle_cores();
    std::stable_sort(proposals_.begin(), proposals_.end(),
                     [](const Proposal& a, const Proposal& b) { return a.period_ns < b.period_ns; });
    std::vector<Split> splits;
    for (const SplitShape& shape : probes()) {
      if (splits.size() < most) add(shape, splits);
    }
    for (const Proposal& proposal : proposals_) {
      if (splits.size() < most && proposal.period_ns < promising_ns()) add(proposal.shape, splits);
    }
    for (const SplitShape& shape : splits.size() < most ? preferred_ties() : std::vector<SplitShape>()) {
      if (splits.size() < most) add(shape, splits);
    }
    return splits;
  }

 private:
  /// Returns small pools of the plain families where the sides overlap: beside the controls, which are large,
  /// they show how much a core contributes to the step, and how much less it disturbs training.
  std::vector<SplitShape> probes() const {
    std::vector<SplitShape> shapes;
    if (schedule_.mode == Mode::wait) return shapes;
    for (const SplitShape& family : families_of(homes_)) {
      if (family.shared || family.pool_pus_per_core != 1 || family.pool_kind) continue;
      const int size = std::max(1, cores_ / kProbe);
      const bool uneven = !is_even(family, size);
      shapes.push_back(resized(family, uneven ? size - size % l3_groups_ : size));
    }
    return shapes;
  }

  /// Returns the shortest step that a pool of that many cores could have: as fast as the fastest one, and no
  /// core faster than in any pool.
  double best_step(const SplitShape& family, int pool) const {
    double fastest = std::numeric_limits<double>::infinity();
    double work = fastest;
    for (const TriedSplit& one : tried_) {
      if (one.split.shape.control == Control::unbound) continue;
      fastest = std::min(fastest, one.step_ns);
      if (one.split.shape.pool_pus_per_core != family.pool_pus_per_core) continue;
      work = std::min(work, one.step_ns * pool_of(one));
    }
    return std::max(fastest, work / pool);
  }

  double promising_ns() const { return best_->period_ns * (1 - tie_ / 2); }

  double period(const Forecast& times) const {
    return period_of(times.training_ns, times.step_ns, schedule_);
  }

  static int pool_of(const TriedSplit& one) {
    int pool = std::numeric_limits<int>::max();
    for (const RankSplit& rank : one.split.ranks) pool = std::min(pool, rank.pool_cores);
    return pool;
  }

  /// Returns the largest pool of the family. A pool with more cores than its CPU kind has would take cores of
  /// a slower kind, which would set the pace.
  int most_of(const SplitShape& family) const {
    int most = family.shared ? cores_ : cores_ - 1;
    if (!family.pool_kind) return most;
    for (const Home& home : homes_) {
      const auto count = std::count_if(home.cores.begin(), home.cores.end(),
                                       [&](const HomeCore& core) { return core.kind == *family.pool_kind; });
      most = std::min(most, std::max(1, static_cast<int>(count)));
    }
    return most;
  }

  /// Returns whether the size is worth a look. A spread pool with more cores in one L3 group than in another
  /// is as slow as if all groups had that many.
  bool is_even(const SplitShape& family, int pool) const {
    return family.placement == Placement::compact || pool < l3_groups_ || pool % l3_groups_ == 0;
  }

  std::vector<Point> points_of(const SplitShape& family) const {
    std::map<int, Point> points;
    for (const TriedSplit& one : tried_) {
      if (one.split.shape.control == Control::unbound || !same_family(one.split.shape, family)) continue;
      points[pool_of(one)] = {pool_of(one), one.step_ns, one.training_ns};
    }
    std::vector<Point> sorted;
    for (const auto& [pool, point] : points) sorted.push_back(point);
    return sorted;
  }

  /// Returns training's time beside a pool of `pool` cores at best, if it takes `training_ns` beside
  /// `measured` cores.
  double best_training(const SplitShape& family, const Point& measured, int pool) const {
    if (family.shared || pool >= measured.pool) return measured.training_ns;
    return measured.training_ns * (cores_ - measured.pool) / (cores_ - pool);
  }

  /// Forecasts a size of a family from its measured sizes, of which there is one: between two of them the
  /// step is linear in 1 / size and training linear in the size. Beyond them the step goes with 1 / size, and
  /// training is as fast as it could be with the cores that it has then.
  Forecast forecast(const SplitShape& family, const std::vector<Point>& points, int pool) const {
    const auto above =
        std::find_if(points.begin(), points.end(), [&](const Point& point) { return point.pool >= pool; });
    if (above == points.end() || above == points.begin()) {
      const Point& nearest = above == points.end() ? points.back() : points.front();
      const bool smaller = pool < nearest.pool;
      return {smaller ? std::max(nearest.step_ns, best_step(family, pool))
                      : nearest.step_ns * nearest.pool / pool,
              best_training(family, nearest, pool)};
    }
    const Point& high = *above;
    const Point& low = *(above - 1);
    const double in_step = (1.0 / low.pool - 1.0 / pool) / (1.0 / low.pool - 1.0 / high.pool);
    const double in_training = static_cast<double>(pool - low.pool) / (high.pool - low.pool);
    return {low.step_ns + in_step * (high.step_ns - low.step_ns),
            low.training_ns + in_training * (high.training_ns - low.training_ns)};
  }

  /// Proposes the size between `low` and `high`, both excluded, with the shortest forecast period. `bound` is
  /// the shortest period that any of them could reach; absent: the forecast.
  void propose_between(const SplitShape& family, const std::vector<Point>& points, int low, int high,
                       std::optional<double> bound = {}) {
    int at = 0;
    double least = std::numeric_limits<double>::infinity();
    for (int pool = low + 1; pool < high; ++pool) {
      if (!is_even(family, pool)) continue;
      const double expected = period(forecast(family, points, pool));
      if (expected >= least) continue;
      least = expected;
      at = pool;
    }
    if (at != 0) proposals_.push_back({resized(family, at), bound.value_or(least)});
  }

  void propose_in_family(const SplitShape& family) {
    std::vector<Point> points = points_of(family);
    if (points.empty()) {
      propose_untried(family);
      return;
    }
    propose_between(family, points, 0, points.front().pool);
    propose_between(family, points, points.back().pool, most_of(family) + 1);
    for (std::size_t i = 1; i < points.size(); ++i) {
      const Point& low = points[i - 1];
      const Point& high = points[i];
      propose_between(
          family, points, low.pool, high.pool,
          period({std::min(low.step_ns, high.step_ns), std::min(low.training_ns, high.training_ns)}));
    }
  }

  /// Proposes a family that was not tried, at the size of the best one tried. At best it steps as fast as the
  /// memory allows the plain family, and disturbs training as little.
  void propose_untried(const SplitShape& family) {
    SplitShape plain;
    plain.shared = family.shared;
    const std::vector<Point> points = points_of(plain);
    if (points.empty()) return;
    int size = points.front().pool;
    double least = std::numeric_limits<double>::infinity();
    double step = least;
    double training = least;
    for (const Point& point : points) {
      step = std::min(step, point.step_ns);
      training = std::min(training, point.training_ns);
      const double expected = period({point.step_ns, point.training_ns});
      if (expected >= least) continue;
      least = expected;
      size = point.pool;
    }
    // Two sizes at once are not worth more than one: a family that does not pay at the best size is left at
    // that.
    size = std::min(size, most_of(family));
    if (family.placement == Placement::spread) {
      size = std::min(size, std::max(1, most_of(family) / 2));
      if (size > l3_groups_) size -= size % l3_groups_;
    }
    const double could = std::min(best_roofline(plain), step);
    proposals_.push_back({resized(family, size), period({could / kFamilyGain, training})});
  }

  /// Returns the fastest roofline loop of a family.
  double best_roofline(const SplitShape& family) const {
    double best = std::numeric_limits<double>::infinity();
    for (const TriedSplit& one : tried_) {
      if (same_family(one.split.shape, family)) best = std::min(best, one.roofline_ns);
    }
    return best;
  }

  void propose_idle_cores() {
    const auto tries = std::count_if(tried_.begin(), tried_.end(), [](const TriedSplit& one) {
      return one.split.shape.reserved_cores != 0;
    });
    if (tries >= kIdleTries) return;
    std::optional<Proposal> best;
    for (const TriedSplit& one : tried_) {
      const SplitShape& shape = one.split.shape;
      if (shape.control != Control::unbound && !shape.shared) propose_idle_beside(one, best);
    }
    if (best) proposals_.push_back(*best);
  }

  /// Replaces `best` if this pool with fewer training cores promises a shorter period.
  void propose_idle_beside(const TriedSplit& one, std::optional<Proposal>& best) const {
    const int reserved = cores_ - pool_of(one);
    for (const Point& beside : points_of({})) {
      const int fewer = cores_ - beside.pool;
      if (fewer >= reserved) continue;
      // At best, the optimizer is slowed down in proportion to the cores that train beside it.
      const double held_up = std::max(0.0, one.step_ns - one.roofline_ns) * fewer / reserved;
      const double could = period({one.roofline_ns + held_up, beside.training_ns});
      if (could >= (best ? best->period_ns : promising_ns())) continue;
      SplitShape idle = resized(one.split.shape, pool_of(one));
      idle.reserved_cores = fewer;
      if (!is_tried(split_of(homes_, idle))) best = {idle, could};
    }
  }

  /// Returns the best of the divided homes if one ties with the best of all and the sides overlap, else the
  /// best.
  const TriedSplit& preferred_of_kind(double longest) const {
    const TriedSplit* found = nullptr;
    for (const TriedSplit& one : tried_) {
      const SplitShape& shape = one.split.shape;
      if (shape.control == Control::unbound || shape.shared || one.period_ns > longest) continue;
      if (found == nullptr || one.period_ns < found->period_ns) found = &one;
    }
    return found == nullptr || schedule_.mode == Mode::wait ? *best_ : *found;
  }

  /// A divided split, and how it would do.
  struct Tie {
    SplitShape shape;
    Forecast times;
    double loss = 0;  ///< Contender::loss_if_wrong
  };

  /// Returns the divided split that loses least if the job is not as told, of those whose period is at most
  /// `longest`. Looks at all sizes of all families that were tried, by the forecasts.
  std::optional<Tie> safest_tie(double longest) const {
    std::vector<Tie> ties;
    for (const SplitShape& family : families_of(homes_)) {
      const std::vector<Point> points = points_of(family);
      if (family.shared || points.empty()) continue;
      for (int pool = 1; pool <= most_of(family); ++pool)
        ties.push_back({resized(family, pool), forecast(family, points, pool)});
    }
    for (const auto& [training, step] : {std::pair(1 / kToldWrong, 1.0), std::pair(1.0, kToldWrong)}) {
      const auto wrong = [&, in_training = training, in_step = step](const Forecast& times) {
        return period({in_step * times.step_ns, in_training * times.training_ns});
      };
      double best = std::numeric_limits<double>::infinity();
      for (const Tie& tie : ties) best = std::min(best, wrong(tie.times));
      for (const TriedSplit& one : tried_) {
        if (one.split.shape.control != Control::unbound)
          best = std::min(best, wrong({one.step_ns, one.training_ns}));
      }
      for (Tie& tie : ties) tie.loss = std::max(tie.loss, wrong(tie.times) / best - 1);
    }
    std::erase_if(ties, [&](const Tie& tie) { return period(tie.times) > longest; });
    const auto safest = std::min_element(ties.begin(), ties.end(),
                                         [](const Tie& a, const Tie& b) { return a.loss < b.loss; });
    if (safest == ties.end()) return std::nullopt;
    return *safest;
  }

  /// Returns divided splits that could tie with the best one and lose less if the job is not as told: the
  /// safest tie, or if that was tried and is not safe, its size in the families that were not tried.
  std::vector<SplitShape> safer_ties(double longest) const {
    auto safest = safest_tie(longest);
    if (!safest || safest->loss > kCliff) safest = safest_tie(best_->period_ns * (1 + kWiderTie * tie_));
    if (!safest) return {};
    if (!is_tried(split_of(homes_, safest->shape))) return {safest->shape};
    std::vector<SplitShape> shapes;
    for (const SplitShape& family : families_of(homes_)) {
      if (safest->loss <= kSafe || family.shared || !points_of(family).empty()) continue;
      if (safest->shape.pool_cores <= most_of(family))
        shapes.push_back(resized(family, safest->shape.pool_cores));
    }
    return shapes;
  }

  /// Returns the sizes that the judgement would prefer among those that may tie with the best one, in its
  /// family. If the sides overlap on divided homes, this is the smallest one with headroom, or else
  /// safer_ties(). Without training it is the smallest one. Otherwise it is half of the smallest tie, in case
  /// that steps faster. May return what was tried.
  std::vector<SplitShape> preferred_ties() const {
    const double longest = best_->period_ns * (1 + tie_);
    const TriedSplit& preferred = preferred_of_kind(longest);
    const SplitShape& family = preferred.split.shape;
    const std::vector<Point> points = points_of(family);
    const bool hides = window_of(preferred.training_ns, schedule_) > 0 && !family.shared;
    if (hides) {
      for (int pool = 1; pool <= most_of(family); ++pool) {
        if (!is_even(family, pool)) continue;
        const Forecast times = forecast(family, points, pool);
        if (kStepHeadroom * schedule_.step_factor * times.step_ns > window_of(times.training_ns, schedule_))
          continue;
        if (period(times) > longest) break;
        return {resized(family, pool)};
      }
      return safer_ties(longest);
    }
    const bool shortest_step = schedule_.mode == Mode::wait || family.shared;
    int below = 0;
    for (const Point& point : points) {
      if (period({point.step_ns, point.training_ns}) <= longest) {
        if (shortest_step && below != 0) return {};
        if (point.pool - below < 2) return {};
        return {resized(family, below + (point.pool - below) / 2)};
      }
      below = point.pool;
    }
    return {};
  }

  bool is_tried(const Split& split) const {
    return std::any_of(tried_.begin(), tried_.end(),
                       [&](const TriedSplit& one) { return same_cpus(split, one.split); });
  }

  void add(const SplitShape& shape, std::vector<Split>& splits) const {
    if (shape.shared && shared_pools_ != SharedPools::any) return;  // the whole one is a control
    Split split = split_of(homes_, shape);
    if (!is_among(split, splits) && !is_tried(split)) splits.push_back(std::move(split));
  }

  const std::vector<Home>& homes_;
  const std::vector<TriedSplit>& tried_;
  const Schedule& schedule_;
  double tie_;
  int cores_;      ///< of the smallest home
  int l3_groups_;  ///< of the home that has fewest
  SharedPools shared_pools_;
  const TriedSplit* best_ = nullptr;
  std::vector<Proposal> proposals_;
};

}  // namespace

std::vector<Split> control_splits(const std::vector<Home>& homes, SharedPools shared_pools) {
  std::vector<Split> splits;
  const bool shared = std::any_of(homes.begin(), homes.end(), [](const Home& home) { return home.shared; });
  if (shared) return {split_of(homes, {})};  // a rank with one core leaves nothing to compare
  for (const Control control : {Control::shared, Control::half, Control::eighty_twenty, Control::unbound}) {
    if (control == Control::shared && shared_pools == SharedPools::none) continue;
    Split split = split_of(homes, control_shape(control));
    split.shape.pool_cores = split.ranks.front().pool_cores;
    if (!is_among(split, splits)) splits.push_back(std::move(split));
  }
  return splits;
}

std::vector<Split> promising_splits(const std::vector<Home>& homes, const std::vector<TriedSplit>& tried,
                                    const Schedule& schedule, double tie, std::size_t most,
                                    SharedPools shared_pools) {
  return SplitProposer(homes, tried, schedule, tie, shared_pools).splits(most);
}

}  // namespace zf
