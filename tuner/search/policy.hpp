// The constants by which splits are chosen. docs/tuning.md has the rule; tests/regret and
// tests/regret/hold_out measure what each of them earns.
#pragma once

#include <utility>

namespace zf {

/// The relative difference below which two splits tie, unless the user asks for another accuracy. Visits of
/// one split differ by about 1 % on an idle machine.
inline constexpr double kDefaultTie = 0.02;
/// The largest difference that may be a tie, in units of the accuracy wanted, and how much slower than the
/// fastest a split may be that is chosen: 5 % by default. However noisy a machine is, more than this counts.
inline constexpr double kLargestTie = 2.5;

/// How the job may differ from its workload: training 1.5 times as fast, or the step 1.5 times as long. The
/// first factor is that of training, the second that of the step. (The figures of configs/workloads are known
/// about that well: see its README.)
inline constexpr double kDiffers = 1.5;
inline constexpr std::pair<double, double> kWaysToDiffer[] = {{1 / kDiffers, 1}, {1, kDiffers}};
/// How much the loss counts if the job differs, beside the loss if it does not. With 1 the 95th percentile of
/// the regret of calm machines rises from 1.36 to 1.77 %, and the mean loss if the job differs falls from
/// 0.31 to 0.26 % (`regret 5 50`, 2026-11-26).
inline constexpr double kDifferWeight = 0.5;

/// Two risks that differ by at most this part of a tie count as equal: the preferred kind of split wins, and
/// no visit is made to find a risk that is not lower by more. With a whole tie the mean loss if the job
/// differs rises from 0.31 to 0.46 % (as above).
inline constexpr double kSameRisk = 0.5;
/// With fewer degrees of freedom between visits, the spread within visits is looked at too.
inline constexpr int kFewFreedoms = 2;

// These are worth a visit although no forecast says so. Figures are those of `regret 5 50` (2026-11-26): the
// 95th percentile of the regret of calm machines, and the mean loss if the job differs; 1.36 % and 0.31 %
// with all.

/// The first small pool has this part of the cores. Beside the controls, which are large, it shows how much a
/// core contributes to the step, and how much less it disturbs training. Without it: 1.86 % and 0.40 %.
inline constexpr int kProbe = 8;
/// How many times faster a family that was not tried could step than the fastest roofline loop so far:
/// siblings and spread pools may use more of the memory's bandwidth. With 1: 1.63 % and 0.36 %.
inline constexpr double kFamilyGain = 1.3;
/// About how many splits with idle cores are tried in a sweep, beside those that free an L3 group. With 2,
/// some machines keep a regret of 5 to 11 % (`regret 3 100 431911 generated-98`: p95 4.14 %, with 3 1.84 %);
/// with 4 none gains.
inline constexpr int kIdleTries = 3;
/// A visit is cut short if its first periods are this many times as long as the shortest period so far.
/// Without that: 1.39 % and 0.31 %, and more time.
inline constexpr double kHopeless = 1.5;

}  // namespace zf
