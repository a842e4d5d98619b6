#include "search/candidates.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <set>

namespace zf {
namespace {

int core_count(const Home& home) { return static_cast<int>(home.cores.size()); }

int largest_pool(const std::vector<Home>& homes) {
  int cores = std::numeric_limits<int>::max();
  for (const Home& home : homes) cores = std::min(cores, core_count(home));
  return std::max(1, cores - 1);
}

std::vector<int> coarse_sizes(int largest) {
  std::vector<int> sizes{1};
  for (int power = 2; power < largest; power *= 2) {
    sizes.push_back(power);
    if (power + power / 2 < largest) sizes.push_back(power + power / 2);
  }
  if (largest > 1) sizes.push_back(largest);
  return sizes;
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

/// Returns all shapes of pools that differ on these homes, at size 1. The plain shape comes first.
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
  for (const int pus_per_core : {1, 0}) {
    for (const Placement placement : {Placement::compact, Placement::spread}) {
      if (pus_per_core == 0 && !siblings) continue;
      if (placement == Placement::spread && l3_groups.size() < 2) continue;
      families.push_back({.pool_pus_per_core = pus_per_core, .placement = placement});
    }
  }
  if (kinds.size() > 1) {
    for (const int kind : kinds) families.push_back({.pool_kind = kind});
  }
  return families;
}

struct Point {
  int pool = 0;
  double step_ns = 0;
  double training_window_ns = 0;
};

struct Proposal {
  SplitShape shape;
  double period_ns = 0;  ///< the shortest period that it could reach
};

/// Works out promising_splits().
class SplitProposer {
 public:
  SplitProposer(const std::vector<Home>& homes, const std::vector<TriedSplit>& tried, double tie)
      : homes_(homes), tried_(tried), tie_(tie), largest_(largest_pool(homes)) {
    for (const TriedSplit& one : tried) {
      if (one.split.shape.control == Control::unbound) continue;
      if (best_ == nullptr || one.period_ns() < best_->period_ns()) best_ = &one;
    }
    plain_ = points_of({});
  }

  std::vector<Split> splits() {
    if (best_ == nullptr || best_->split.ranks.front().shared) return {};
    for (const SplitShape& family : families_of(homes_)) propose_in_family(family);
    propose_idle_cores();
    std::stable_sort(proposals_.begin(), proposals_.end(),
                     [](const Proposal& a, const Proposal& b) { return a.period_ns < b.period_ns; });
    std::vector<Split> splits;
    for (const Proposal& proposal : proposals_) {
      if (proposal.period_ns < promising_ns()) add(proposal.shape, splits);
    }
    if (const auto shape = smaller_tie()) add(*shape, splits);
    return splits;
  }

 private:
  double promising_ns() const { return best_->period_ns() * (1 - tie_ / 2); }

  int pool_of(const TriedSplit& one) const {
    int pool = std::numeric_limits<int>::max();
    for (const RankSplit& rank : one.split.ranks) pool = std::min(pool, rank.pool_cores);
    return pool;
  }

  /// Returns the largest pool of the family. A pool with more cores than its CPU kind has would take cores of
  /// a slower kind, which would set the pace.
  int most_of_kind(const SplitShape& family) const {
    int most = largest_;
    if (!family.pool_kind) return most;
    for (const Home& home : homes_) {
      const auto count = std::count_if(home.cores.begin(), home.cores.end(),
                                       [&](const HomeCore& core) { return core.kind == *family.pool_kind; });
      most = std::min(most, std::max(1, static_cast<int>(count)));
    }
    return most;
  }

  std::vector<Point> points_of(const SplitShape& family) const {
    std::vector<Point> points;
    for (const TriedSplit& one : tried_) {
      if (one.split.shape.control == Control::unbound || !same_family(one.split.shape, family)) continue;
      points.push_back({pool_of(one), one.step_ns, one.training_window_ns});
    }
    std::sort(points.begin(), points.end(), [](const Point& a, const Point& b) { return a.pool < b.pool; });
    return points;
  }

  /// Estimates update_interval training steps beside a pool of that size. Uses the plain family, because the
  /// shape of the pool matters little to training.
  double training_window_at(int pool) const {
    if (plain_.empty()) return 0;
    if (pool <= plain_.front().pool) return plain_.front().training_window_ns;
    for (std::size_t i = 1; i < plain_.size(); ++i) {
      const Point& low = plain_[i - 1];
      const Point& high = plain_[i];
      if (pool > high.pool) continue;
      if (high.pool == low.pool) return high.training_window_ns;
      const double part = static_cast<double>(pool - low.pool) / (high.pool - low.pool);
      return low.training_window_ns + part * (high.training_window_ns - low.training_window_ns);
    }
    return plain_.back().training_window_ns;
  }

  /// Proposes the pool size between `low` and `high`, both excluded, at which the longer side is shortest.
  template <class Step, class Window>
  void propose_between(const SplitShape& family, int low, int high, Step step, Window training_window,
                       std::optional<double> bound = {}) {
    int at = 0;
    double least = std::numeric_limits<double>::infinity();
    for (int pool = low + 1; pool < high; ++pool) {
      const double period = std::max(step(pool), training_window(pool));
      if (period >= least) continue;
      least = period;
      at = pool;
    }
    if (at != 0) proposals_.push_back({resized(family, at), bound.value_or(least)});
  }

  void propose_in_family(const SplitShape& family) {
    const std::vector<Point> points = points_of(family);
    const auto training_window = [&](int pool) { return training_window_at(pool); };
    if (points.empty()) {
      // All that is known: training cannot be faster than beside the smallest pool.
      proposals_.push_back(
          {resized(family, std::min(pool_of(*best_), most_of_kind(family))), training_window_at(1)});
      return;
    }
    const auto inverse = [](const Point& from) {
      return [from](int pool) { return from.step_ns * from.pool / pool; };
    };
    propose_between(family, 0, points.front().pool, inverse(points.front()), training_window);
    propose_between(family, points.back().pool, largest_ + 1, inverse(points.back()), training_window);
    for (std::size_t i = 1; i < points.size(); ++i) {
      const Point& low = points[i - 1];
      const Point& high = points[i];
      const auto step = [&](int pool) {  // linear in 1/size between the two
        const double part = (1.0 / low.pool - 1.0 / pool) / (1.0 / low.pool - 1.0 / high.pool);
        return low.step_ns + part * (high.step_ns - low.step_ns);
      };
      const auto between = [&](int pool) {
        const double part = static_cast<double>(pool - low.pool) / (high.pool - low.pool);
        return low.training_window_ns + part * (high.training_window_ns - low.training_window_ns);
      };
      propose_between(family, low.pool, high.pool, step, between,
                      std::max(high.step_ns, low.training_window_ns));
    }
  }

  void propose_idle_cores() {
    const auto tries = std::count_if(tried_.begin(), tried_.end(), [](const TriedSplit& one) {
      return one.split.shape.reserved_cores != 0;
    });
    if (tries >= kIdleTries) return;
    for (const SplitShape& family : families_of(homes_)) {
      std::optional<Proposal> best;
      for (const TriedSplit& one : tried_) {
        const SplitShape& shape = one.split.shape;
        if (shape.control != Control::unbound && same_family(shape, family)) propose_idle_beside(one, best);
      }
      if (best) proposals_.push_back(*best);
    }
  }

  /// Replaces `best` if this pool with fewer training cores promises a shorter period.
  void propose_idle_beside(const TriedSplit& one, std::optional<Proposal>& best) const {
    const int reserved = largest_ + 1 - pool_of(one);
    for (const Point& beside : plain_) {
      const int fewer = largest_ + 1 - beside.pool;
      if (fewer >= reserved) continue;
      // At best, the optimizer is slowed down in proportion to the cores that train beside it.
      const double held_up = std::max(0.0, one.step_ns - one.roofline_ns) * fewer / reserved;
      const double period = std::max(one.roofline_ns + held_up, beside.training_window_ns);
      if (period >= (best ? best->period_ns : promising_ns())) continue;
      SplitShape idle = resized(one.split.shape, pool_of(one));
      idle.reserved_cores = fewer;
      if (!is_tried(split_of(homes_, idle))) best = {idle, period};
    }
  }

  /// Returns the size half-way between the smallest pool that ties with the best one and the next smaller
  /// pool tried, both of the best one's family; nothing if there is no size between them.
  std::optional<SplitShape> smaller_tie() const {
    const SplitShape& family = best_->split.shape;
    int below = 0;
    for (const Point& point : points_of(family)) {
      if (std::max(point.step_ns, point.training_window_ns) <= best_->period_ns() * (1 + tie_)) {
        if (point.pool - below < 2) return std::nullopt;
        return resized(family, below + (point.pool - below) / 2);
      }
      below = point.pool;
    }
    return std::nullopt;
  }

  bool is_tried(const Split& split) const {
    return std::any_of(tried_.begin(), tried_.end(),
                       [&](const TriedSplit& one) { return same_cpus(split, one.split); });
  }

  void add(const SplitShape& shape, std::vector<Split>& splits) const {
    if (splits.size() == kMaxProposals) return;
    Split split = split_of(homes_, shape);
    if (!is_among(split, splits) && !is_tried(split)) splits.push_back(std::move(split));
  }

  const std::vector<Home>& homes_;
  const std::vector<TriedSplit>& tried_;
  double tie_;
  int largest_;
  const TriedSplit* best_ = nullptr;
  std::vector<Point> plain_;
  std::vector<Proposal> proposals_;
};

}  // namespace

double TriedSplit::period_ns() const { return std::max(step_ns, training_window_ns); }

std::vector<Split> control_splits(const std::vector<Home>& homes) {
  std::vector<Split> splits;
  const bool shared = std::any_of(homes.begin(), homes.end(), [](const Home& home) { return home.shared; });
  if (shared) return splits;  // a rank with one core leaves nothing to compare
  for (const Control control : {Control::half, Control::two_reserved, Control::unbound}) {
    Split split = split_of(homes, {.control = control});
    split.shape.pool_cores = split.ranks.front().pool_cores;
    if (!is_among(split, splits)) splits.push_back(std::move(split));
  }
  return splits;
}

std::vector<Split> growing_splits(const std::vector<Home>& homes) {
  std::vector<Split> splits = control_splits(homes);
  const std::size_t controls = splits.size();
  for (const int size : coarse_sizes(largest_pool(homes))) {
    Split split = split_of(homes, {.pool_cores = size});
    if (!is_among(split, splits)) splits.push_back(std::move(split));
  }
  splits.erase(splits.begin(), splits.begin() + static_cast<std::ptrdiff_t>(controls));
  return splits;
}

std::vector<Split> promising_splits(const std::vector<Home>& homes, const std::vector<TriedSplit>& tried,
                                    double tie) {
  return SplitProposer(homes, tried, tie).splits();
}

}  // namespace zf
