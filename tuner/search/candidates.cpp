#include "search/candidates.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "search/preferred_ties.hpp"

namespace zf {
namespace {

/// The first small pool has this part of the cores.
constexpr int kProbe = 8;
/// How many times faster a family that was not tried could step than the fastest roofline loop so far:
/// siblings and spread pools may use more of the memory's bandwidth.
constexpr double kFamilyGain = 1.3;

bool is_among(const Split& split, const std::vector<Split>& others) {
  return std::any_of(others.begin(), others.end(),
                     [&](const Split& other) { return same_cpus(split, other); });
}

struct Proposal {
  SplitShape shape;
  double period_ns = 0;  ///< the shortest period that it could reach
};

/// Works out promising_splits().
class SplitProposer {
 public:
  SplitProposer(const std::vector<Home>& homes, const std::vector<TriedSplit>& tried,
                const Schedule& schedule, double tie, SharedPools shared_pools)
      : homes_(homes), families_(homes, tried, schedule), tie_(tie), shared_pools_(shared_pools) {}

  std::vector<Split> splits(std::size_t most) {
    const bool one_core =
        std::any_of(homes_.begin(), homes_.end(), [](const Home& home) { return home.shared; });
    if (families_.best() == nullptr || one_core) return {};
    for (const SplitShape& family : families_.all()) propose_in_family(family);
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
    for (const SplitShape& shape :
         splits.size() < most ? preferred_ties(families_, tie_) : std::vector<SplitShape>()) {
      if (splits.size() < most) add(shape, splits);
    }
    return splits;
  }

 private:
  /// Returns small pools of the plain families where the sides overlap: beside the controls, which are large,
  /// they show how much a core contributes to the step, and how much less it disturbs training.
  std::vector<SplitShape> probes() const {
    std::vector<SplitShape> shapes;
    if (families_.schedule().mode == Mode::wait) return shapes;
    for (const SplitShape& family : families_.all()) {
      if (family.shared || family.pool_pus_per_core != 1 || family.pool_make) continue;
      const int size = std::max(1, families_.cores() / kProbe);
      const bool uneven = !families_.is_even(family, size);
      shapes.push_back(resized(family, uneven ? size - size % families_.l3_groups() : size));
    }
    return shapes;
  }

  double promising_ns() const { return families_.best()->period_ns * (1 - tie_ / 2); }

  /// Proposes the size between `low` and `high`, both excluded, with the shortest forecast period. `bound` is
  /// the shortest period that any of them could reach; absent: the forecast.
  void propose_between(const SplitShape& family, const std::vector<Point>& points, int low, int high,
                       std::optional<double> bound = {}) {
    int at = 0;
    double least = std::numeric_limits<double>::infinity();
    for (int pool = low + 1; pool < high; ++pool) {
      if (!families_.is_even(family, pool)) continue;
      const double expected = families_.period(families_.forecast(family, points, pool));
      if (expected >= least) continue;
      least = expected;
      at = pool;
    }
    if (at != 0) proposals_.push_back({resized(family, at), bound.value_or(least)});
  }

  void propose_in_family(const SplitShape& family) {
    std::vector<Point> points = families_.points_of(family);
    if (points.empty()) {
      propose_untried(family);
      return;
    }
    propose_between(family, points, 0, points.front().pool);
    propose_between(family, points, points.back().pool, families_.most_of(family) + 1);
    for (std::size_t i = 1; i < points.size(); ++i) {
      const Point& low = points[i - 1];
      const Point& high = points[i];
      propose_between(family, points, low.pool, high.pool,
                      families_.period({std::min(low.step_ns, high.step_ns),
                                        std::min(low.training_ns, high.training_ns)}));
    }
  }

  /// Proposes a family that was not tried, at the size of the best one tried. At best it steps as fast as the
  /// memory allows the plain family, and disturbs training as little.
  void propose_untried(const SplitShape& family) {
    SplitShape plain;
    plain.shared = family.shared;
    const std::vector<Point> points = families_.points_of(plain);
    if (points.empty()) return;
    int size = points.front().pool;
    double least = std::numeric_limits<double>::infinity();
    double step = least;
    double training = least;
    for (const Point& point : points) {
      step = std::min(step, point.step_ns);
      training = std::min(training, point.training_ns);
      const double expected = families_.period({point.step_ns, point.training_ns});
      if (expected >= least) continue;
      least = expected;
      size = point.pool;
    }
    // Two sizes at once are not worth more than one: a family that does not pay at the best size is left at
    // that.
    size = std::min(size, families_.most_of(family));
    if (family.placement == Placement::spread) {
      size = std::min(size, std::max(1, families_.most_of(family) / 2));
      if (size > families_.l3_groups()) size -= size % families_.l3_groups();
    }
    const double could = std::min(families_.best_roofline(plain), step);
    proposals_.push_back({resized(family, size), families_.period({could / kFamilyGain, training})});
  }

  void propose_idle_cores() {
    if (!homes_.front().shared_cpus.empty())
      return;  // the two sides divide the threads that the quota pays for
    const auto tries =
        std::count_if(families_.tried().begin(), families_.tried().end(),
                      [](const TriedSplit& one) { return one.split.shape.reserved_cores != 0; });
    if (tries >= kIdleTries) return;
    std::optional<Proposal> best;
    for (const TriedSplit& one : families_.tried()) {
      const SplitShape& shape = one.split.shape;
      if (shape.control != Control::unbound && !shape.shared) propose_idle_beside(one, best);
    }
    if (best) proposals_.push_back(*best);
  }

  /// Replaces `best` if this pool with fewer training cores promises a shorter period.
  void propose_idle_beside(const TriedSplit& one, std::optional<Proposal>& best) const {
    const int reserved = families_.cores() - pool_of(one);
    for (const Point& beside : families_.points_of({})) {
      const int fewer = families_.cores() - beside.pool;
      if (fewer >= reserved) continue;
      // At best, the optimizer is slowed down in proportion to the cores that train beside it.
      const double held_up = std::max(0.0, one.step_ns - one.roofline_ns) * fewer / reserved;
      const double could = families_.period({one.roofline_ns + held_up, beside.training_ns});
      if (could >= (best ? best->period_ns : promising_ns())) continue;
      SplitShape idle = resized(one.split.shape, pool_of(one));
      idle.reserved_cores = fewer;
      if (!families_.is_tried(families_.split(idle))) best = {idle, could};
    }
  }

  void add(const SplitShape& shape, std::vector<Split>& splits) const {
    if (shape.shared && shared_pools_ != SharedPools::any) return;  // the whole one is a control
    Split split = families_.split(shape);
    if (!is_among(split, splits) && !families_.is_tried(split)) splits.push_back(std::move(split));
  }

  const std::vector<Home>& homes_;
  Families families_;
  double tie_;
  SharedPools shared_pools_;
  std::vector<Proposal> proposals_;
};

}  // namespace

std::vector<Split> promising_splits(const std::vector<Home>& homes, const std::vector<TriedSplit>& tried,
                                    const Schedule& schedule, double tie, std::size_t most,
                                    SharedPools shared_pools) {
  return SplitProposer(homes, tried, schedule, tie, shared_pools).splits(most);
}

}  // namespace zf
