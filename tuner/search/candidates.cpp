#include "search/candidates.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "search/decision.hpp"

namespace zf {
namespace {

bool is_among(const Split& split, const std::vector<Split>& others) {
  return std::any_of(others.begin(), others.end(),
                     [&](const Split& other) { return same_cpus(split, other); });
}

/// The first small pool has this part of the cores. Beside the controls, which are large, it shows how much a
/// core contributes to the step, and how much less it disturbs training: worth a visit although no forecast
/// says so. Without it: 1.38, 1.65 and 0.31 % (decision.hpp says of what). With 4: 1.24, 1.69 and 0.28 %, and
/// 29 visits on 256 cores instead of 19. With 16: 1.18, 1.69 and 0.29 %.
constexpr int kProbe = 8;
/// About how many splits with idle cores are tried in a sweep, beside those that free or fill L3 groups. With
/// none: 1.21, 1.41 and 0.28 %, and 0.28 instead of 0.19 % of runs lose more than 5 %; with 10 0.14 %, as
/// without a limit, but sweeps of hundreds of cores make more visits.
constexpr int kIdleTries = 6;

struct Proposal {
  SplitShape shape;
  double risk = 0;  ///< the least that it could have (decision.hpp)
};

/// Returns the risks against the best split that was tried and that a plan can express, or against 0.
Risks risks_of(const std::vector<TriedSplit>& tried, const Schedule& schedule) {
  std::vector<SplitTimes> times;
  for (const TriedSplit& one : tried) {
    if (one.split.shape.control != Control::unbound) times.push_back(times_of(one));
  }
  return {times, schedule};
}

/// Works out promising_splits().
class SplitProposer {
 public:
  SplitProposer(const std::vector<Home>& homes, const std::vector<TriedSplit>& tried,
                const Schedule& schedule, double tie, SharedPools shared_pools)
      : homes_(homes),
        families_(homes, tried, schedule),
        risks_(risks_of(tried, schedule)),
        tie_(tie),
        shared_pools_(shared_pools) {
    for (const TriedSplit& one : tried) {
      if (one.split.shape.control == Control::unbound) continue;
      if (safest_ == nullptr || risk_of(one) < risk_of(*safest_)) safest_ = &one;
    }
    promising_ = risk_of(*safest_) - kSameRisk * tie;
  }

  std::vector<Split> splits(std::size_t most) {
    const bool one_core =
        std::any_of(homes_.begin(), homes_.end(), [](const Home& home) { return home.shared; });
    if (one_core) return {};
    for (const SplitShape& family : families_.all()) propose_in_family(family);
    propose_idle_cores();
    std::stable_sort(proposals_.begin(), proposals_.end(),
                     [](const Proposal& a, const Proposal& b) { return a.risk < b.risk; });
    std::vector<Split> splits;
    for (const SplitShape& shape : probes()) {
      if (splits.size() < most) add(shape, splits);
    }
    for (const Proposal& proposal : proposals_) {
      if (splits.size() < most && proposal.risk < promising_) add(proposal.shape, splits);
    }
    if (const auto smaller = smaller_tie(); smaller && splits.size() < most) add(*smaller, splits);
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

  /// Returns the pool halfway between the smallest of its family that ties with the best split and the next
  /// smaller one. The forecast does not see what a smaller pool gains in two cases: without training, which
  /// would get the other cores; and in mode wait, where threads cost time. (No machine of `regret` gains by
  /// that: threads cost too little there.)
  std::optional<SplitShape> smaller_tie() const {
    const bool waits = families_.schedule().mode == Mode::wait;
    if (!waits && safest_->training_ns > 0) return std::nullopt;
    const double longest = safest_->period_ns * (1 + tie_);
    const TriedSplit* best = safest_;
    for (const TriedSplit& one : families_.tried()) {
      const SplitShape& shape = one.split.shape;
      if (shape.control == Control::unbound || shape.shared != waits || one.period_ns > longest) continue;
      if (best->split.shape.shared != waits || one.period_ns < best->period_ns) best = &one;
    }
    const SplitShape& family = best->split.shape;
    int below = 0;
    for (const Point& point : families_.points_of(family)) {
      if (families_.period({point.step_ns, point.training_ns}) <= longest) {
        if ((waits && below != 0) || point.pool - below < 2) return std::nullopt;
        return resized(family, below + (point.pool - below) / 2);
      }
      below = point.pool;
    }
    return std::nullopt;
  }

  double risk_of(const TriedSplit& one) const { return risks_.risk(times_of(one)); }

  double risk_of(const Forecast& times) const {
    return risks_.risk({families_.period(times), times.training_ns, times.step_ns});
  }

  /// Proposes the size between `low` and `high`, both excluded, with the least forecast risk. `bound` is the
  /// least risk that any of them could have; absent: the forecast.
  void propose_between(const SplitShape& family, const std::vector<Point>& points, int low, int high,
                       std::optional<double> bound = {}) {
    int at = 0;
    double least = std::numeric_limits<double>::infinity();
    for (int pool = low + 1; pool < high; ++pool) {
      if (!families_.is_even(family, pool)) continue;
      const double expected = risk_of(families_.forecast(family, points, pool));
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
                      risk_of(Forecast{std::min(low.step_ns, high.step_ns),
                                       std::min(low.training_ns, high.training_ns)}));
    }
  }

  /// Proposes a family that was not tried, at the size of the plain family that has the least risk. At best
  /// it steps kFamilyGain times as fast as the memory allows the plain family, and disturbs training as
  /// little.
  void propose_untried(const SplitShape& family) {
    SplitShape plain;
    plain.shared = family.shared;
    const std::vector<Point> points = families_.points_of(plain);
    if (points.empty()) return;
    int size = points.front().pool;
    double least = std::numeric_limits<double>::infinity();
    Forecast best{least, least};
    for (const Point& point : points) {
      best = {std::min(best.step_ns, point.step_ns), std::min(best.training_ns, point.training_ns)};
      const double risk = risk_of(Forecast{point.step_ns, point.training_ns});
      if (risk >= least) continue;
      least = risk;
      size = point.pool;
    }
    size = std::min(size, families_.most_of(family));
    if (!families_.is_even(family, size)) size -= size % families_.l3_groups();
    const double could = std::min(families_.best_roofline(plain), best.step_ns);
    proposals_.push_back({resized(family, size), risk_of(Forecast{could / kFamilyGain, best.training_ns})});
  }

  /// Proposes splits in which fewer cores train, so that the optimizer gets more of the bandwidth. Without
  /// these: 1.25, 1.41 and 0.31 %, and 0.71 instead of 0.19 % of runs lose more than 5 %.
  void propose_idle_cores() {
    if (!homes_.front().shared_cpus.empty())
      return;  // the two sides divide the threads that the quota pays for
    propose_freed_l3_groups();
    propose_fuller_l3_groups();
    const auto tries =
        std::count_if(families_.tried().begin(), families_.tried().end(),
                      [](const TriedSplit& one) { return one.split.shape.reserved_cores != 0; });
    if (tries >= kIdleTries) return;
    std::optional<Proposal> best;
    for (const TriedSplit& one : families_.tried()) {
      const SplitShape& shape = one.split.shape;
      if (shape.control == Control::unbound || shape.shared) continue;
      const TriedSplit* fewer = next_fewer(one);
      const int least = fewer == nullptr ? 1 : training_cores(*fewer) + 1;
      for (int reserved = training_cores(one) - 1; reserved >= least; --reserved) {
        const Proposal proposal = with_idle_cores(one, fewer, reserved);
        if (best && proposal.risk >= best->risk) continue;
        if (!families_.is_tried(families_.split(proposal.shape))) best = proposal;
      }
    }
    if (best) proposals_.push_back(*best);
  }

  /// Proposes each number of training cores that leaves an L3 group to the pool alone, beside the safest
  /// split. Without these: 1.24, 1.47 and 0.29 %.
  void propose_freed_l3_groups() {
    if (safest_->split.shape.shared) return;
    int mixed = mixed_l3_groups(homes_, safest_->split);
    for (int reserved = training_cores(*safest_) - 1; reserved >= 1 && mixed > 0; --reserved) {
      const Proposal proposal = with_idle_cores(*safest_, nullptr, reserved);
      const Split split = families_.split(proposal.shape);
      const int left = mixed_l3_groups(homes_, split);
      if (left >= mixed) continue;
      mixed = left;
      if (!families_.is_tried(split)) proposals_.push_back(proposal);
    }
  }

  /// Proposes the next smaller pool of the safest split's family, if that has idle cores: where the pool has
  /// fewer cores of each L3 group, more cores train in as many groups. At best the step stays as it is, and
  /// training is as much faster as it has more cores. Without these the first figure of `regret 2 100 650077`
  /// is 1.52 instead of 1.46 %, and one machine loses 6.5 instead of 1.1 %. They were
  /// chosen by that seed; of one kept back (777123) the figure is 1.25 instead of 1.22 %. `regret 3 40` gains
  /// nothing: 1.17, 1.47 and 0.28 % without.
  void propose_fuller_l3_groups() {
    SplitShape fuller = safest_->split.shape;
    if (fuller.placement != Placement::spread || fuller.reserved_cores == 0) return;
    const int trains = training_cores(*safest_);
    do --fuller.pool_cores;
    while (!families_.is_even(fuller, fuller.pool_cores));
    if (fuller.pool_cores < families_.l3_groups()) return;
    const int mixed = mixed_l3_groups(homes_, safest_->split);
    fuller.reserved_cores = families_.cores() - fuller.pool_cores;
    while (fuller.reserved_cores > trains && mixed_l3_groups(homes_, families_.split(fuller)) > mixed)
      --fuller.reserved_cores;
    if (fuller.reserved_cores <= trains || families_.is_tried(families_.split(fuller))) return;
    const double training = safest_->training_ns * trains / fuller.reserved_cores;
    proposals_.push_back({fuller, risk_of(Forecast{safest_->step_ns, training})});
  }

  int training_cores(const TriedSplit& one) const {
    const int reserved = one.split.shape.reserved_cores;
    return reserved == 0 ? families_.cores() - pool_of(one) : reserved;
  }

  /// Returns the split with the same pool that was tried with the next fewer training cores; null if none
  /// was.
  const TriedSplit* next_fewer(const TriedSplit& one) const {
    const TriedSplit* fewer = nullptr;
    const auto shape_of = [](const TriedSplit& tried) {
      SplitShape shape = resized(tried.split.shape, pool_of(tried));
      shape.reserved_cores = 0;
      return shape;
    };
    for (const TriedSplit& other : families_.tried()) {
      if (other.split.shape.control == Control::unbound || shape_of(other) != shape_of(one)) continue;
      if (training_cores(other) >= training_cores(one)) continue;
      if (fewer == nullptr || training_cores(other) > training_cores(*fewer)) fewer = &other;
    }
    return fewer;
  }

  /// Returns the split with so many training cores. Between two numbers that were tried, both sides are
  /// linear. With fewer than any, at best: the optimizer is slowed down in proportion to the cores that train
  /// beside it. Training gets slower as it does beside plain pools that leave it as few cores: beside a
  /// spread pool it is faster with the same cores, so only the ratio is taken from these.
  Proposal with_idle_cores(const TriedSplit& one, const TriedSplit* fewer, int reserved) const {
    SplitShape idle = resized(one.split.shape, pool_of(one));
    idle.reserved_cores = reserved;
    const int cores = training_cores(one);
    if (fewer != nullptr) {
      const double part = static_cast<double>(cores - reserved) / (cores - training_cores(*fewer));
      return {idle, risk_of(Forecast{std::lerp(one.step_ns, fewer->step_ns, part),
                                     std::lerp(one.training_ns, fewer->training_ns, part)})};
    }
    const double held_up = std::max(0.0, one.step_ns - one.roofline_ns) * reserved / cores;
    const double training = one.training_ns * plain_training(reserved) / plain_training(cores);
    return {idle, risk_of(Forecast{one.roofline_ns + held_up, training})};
  }

  /// Forecasts training with that many cores beside a plain pool on the others; 1 if there is no such time.
  double plain_training(int cores) const {
    const std::vector<Point> points = families_.points_of({});
    if (points.empty()) return 1;
    const double training = families_.forecast({}, points, families_.cores() - cores).training_ns;
    return training > 0 ? training : 1;
  }

  void add(const SplitShape& shape, std::vector<Split>& splits) const {
    if (shape.shared && shared_pools_ != SharedPools::any) return;  // the whole one is a control
    Split split = families_.split(shape);
    if (!is_among(split, splits) && !families_.is_tried(split)) splits.push_back(std::move(split));
  }

  const std::vector<Home>& homes_;
  Families families_;
  Risks risks_;
  double tie_;
  SharedPools shared_pools_;
  const TriedSplit* safest_ = nullptr;  ///< has the least risk of those tried
  double promising_ = 0;                ///< a lower risk is worth a visit
  std::vector<Proposal> proposals_;
};

}  // namespace

std::vector<Split> promising_splits(const std::vector<Home>& homes, const std::vector<TriedSplit>& tried,
                                    const Schedule& schedule, double tie, std::size_t most,
                                    SharedPools shared_pools) {
  return SplitProposer(homes, tried, schedule, tie, shared_pools).splits(most);
}

}  // namespace zf
