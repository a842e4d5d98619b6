// Judges which of several splits that were timed side by side wins. The sweep and `trial` both use it. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "compare/levels.hpp"
#include "plan/evidence.hpp"
#include "plan/period.hpp"
#include "search/policy.hpp"
#include "search/risk.hpp"

namespace zf {

/// The size of an optimizer pool per rank. The pool with fewer threads is smaller; of two with as many
/// threads, the one on fewer cores.
struct PoolSize {
  int threads = 0;
  int cores = 0;
  auto operator<=>(const PoolSize&) const = default;
};

/// One split as the judgement sees it. Its visits are those of its index among the contenders.
struct Contender {
  bool eligible = true;  ///< false if no plan can express it (unbound): it is compared with, but never wins
  Control control = Control::none;
  bool shared = false;  ///< both sides have the whole home
  PoolSize pool;
  int idle = 0;         ///< cores on neither side
  double training = 0;  ///< a training step, nanoseconds; 0 if there is none
  double step = 0;      ///< our optimizer step, nanoseconds; 0 if it is not known
};

struct Contest {
  std::vector<Contender> contenders;
  Levels levels;
  Schedule schedule;
  double accuracy = kDefaultTie;  ///< the smallest relative difference that counts
  double noise = 0;               ///< up to which difference two splits may be equal

  /// Returns whether the contender can be chosen.
  bool can_win(std::size_t index) const { return contenders[index].eligible && levels.has(index); }
  /// Returns what is known of a contender with a visit.
  SplitTimes times_of(std::size_t index) const;
};

/// Returns up to which difference two splits may be equal that have `visits` visits each. While few visits
/// say how much visits differ (kFewFreedoms), the errors of the visits' own values count too: the standard
/// error of each, relative; none if each is one sample.
double noise_of(const Levels& levels, const std::vector<double>& errors, int visits);

/// Returns the largest difference that may be a tie: the accuracy or the noise, whichever is more, but at
/// most kLargestTie times the accuracy.
double tie_of(double accuracy, double noise);

/// Returns the index of the eligible contender with the lowest level, the first one among equals.
/// Precondition: an eligible contender has a visit.
std::size_t fastest_index(const Contest& contest);

/// Returns the index of the control; nothing if there is none with a visit.
std::optional<std::size_t> control_index(const Contest& contest, Control control);

/// Returns the eligible contender with the lowest level except `index`; nothing if there is no other.
std::optional<std::size_t> runner_up_of(const Contest& contest, std::size_t index);

/// Returns the risks against the best of the contenders that can win. Precondition: there is one.
Risks risks_of(const Contest& contest);

struct Judgement {
  std::size_t fastest = 0;
  std::size_t winner = 0;
  double tie = 0;         ///< tie_of()
  double same_risk = 0;   ///< up to this difference two risks are equal
  bool is_safer = false;  ///< loses less than the fastest if the job differs, and would not win otherwise
};

/// Returns the contender with the least risk as the winner. Of those with a risk of at most kSameRisk of a
/// tie higher (a whole tie, if what is lost if the job differs is not known), and which are at most
/// kLargestTie times the accuracy slower than the fastest:
/// - in mode wait, a shared home wins, and of several the one with the shortest step;
/// - in the other modes, a divided home wins, and of several the smallest pool;
/// - if no step is known (trial), the lowest level of that kind of homes.
/// Precondition: an eligible contender has a visit.
Judgement judge(const Contest& contest);

/// Returns whether the plan should be the shared home instead of `winner`, which is `slower` than that: the
/// noise exceeds the accuracy, and the interval does not show that the winner is faster.
bool is_lost_in_noise(const Contest& contest, const Difference& slower);

}  // namespace zf
