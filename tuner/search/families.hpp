// Forecasts the times of splits from those that were measured, family by family. Pure.
#pragma once

#include <vector>

#include "homes/split.hpp"
#include "plan/period.hpp"
#include "search/decision.hpp"

namespace zf {

/// How many times faster a family that was not tried could step than the fastest roofline loop so far:
/// siblings and spread pools may use more of the memory's bandwidth. With 1: 1.45, 1.71 and 0.33 %
/// (decision.hpp says of what). If no such family is tried: 5.38, 1.47 and 1.03 %.
inline constexpr double kFamilyGain = 1.3;

/// A split that has been measured. Times are those of undisturbed_times() (period_levels.hpp).
struct TriedSplit {
  Split split;
  double step_ns = 0;      ///< the optimizer's step
  double roofline_ns = 0;  ///< what the step would take if training used no bandwidth
  double training_ns = 0;  ///< a training step; 0 without a training side
  double period_ns = 0;
};

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

/// Returns the shape with another pool size. The result is no control, even if `shape` is one.
SplitShape resized(SplitShape shape, int pool_cores);

/// Returns what is known of the split.
inline SplitTimes times_of(const TriedSplit& one) { return {one.period_ns, one.training_ns, one.step_ns}; }

/// Returns in how many L3 groups of all ranks both sides have cores.
int mixed_l3_groups(const std::vector<Home>& homes, const Split& split);

/// Returns the pool cores of the rank that has fewest.
int pool_of(const TriedSplit& one);

/// The families of splits on some homes, and what was measured of them. A family is one shape in all sizes:
/// divided or shared homes, placement, PUs per core, make of cores. Cores that are fast today have no family:
/// a plan moves to nodes where others are fast. Where neighbours share the CPUs, a size is a number of
/// threads, and only divided and shared homes differ. Keeps references to what it is made of.
class Families {
 public:
  Families(const std::vector<Home>& homes, const std::vector<TriedSplit>& tried, const Schedule& schedule);

  /// Returns all shapes of pools that differ on these homes, at size 1. The plain shapes come first: divided
  /// homes, then shared ones.
  const std::vector<SplitShape>& all() const { return all_; }
  const std::vector<TriedSplit>& tried() const { return tried_; }
  const Schedule& schedule() const { return schedule_; }
  int cores() const { return cores_; }          ///< of the smallest home
  int l3_groups() const { return l3_groups_; }  ///< of the home that has fewest
  bool is_tried(const Split& split) const;
  Split split(const SplitShape& shape) const { return split_of(homes_, shape); }

  /// Returns the largest pool of the family. A pool with more cores than its make has would take cores of a
  /// slower one, which would set the pace. Nor does it have more cores than the smallest home can give: the
  /// sizes differ by two cores at most, and with a larger pool in the larger homes the rank of the smallest
  /// one, for which the others wait, would be no faster.
  int most_of(const SplitShape& family) const;

  /// Returns whether the size is worth a look. A spread pool with more cores in one L3 group than in another
  /// is as slow as if all groups had that many.
  bool is_even(const SplitShape& family, int pool) const;

  /// Returns the tried sizes of the family, the smallest first.
  std::vector<Point> points_of(const SplitShape& family) const;

  /// Returns the fastest roofline loop of a family; infinity if none was tried.
  double best_roofline(const SplitShape& family) const;

  /// Forecasts a size of a family from its measured sizes. Between two of them the step is linear in 1 / size
  /// and training linear in the size. Beyond them the step goes with 1 / size, and training is as fast as it
  /// could be with the cores that it has then. Precondition: a size was measured.
  Forecast forecast(const SplitShape& family, const std::vector<Point>& points, int pool) const;

  double period(const Forecast& times) const;

 private:
  double best_step(const SplitShape& family, int pool) const;
  double best_training(const SplitShape& family, const Point& measured, int pool) const;

  const std::vector<Home>& homes_;
  const std::vector<TriedSplit>& tried_;
  const Schedule& schedule_;
  int cores_;
  int l3_groups_;
  std::vector<SplitShape> all_;
};

}  // namespace zf
