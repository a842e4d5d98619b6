// Judges which of several splits that were timed side by side wins. The sweep and `trial` both use it. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "compare/levels.hpp"
#include "plan/evidence.hpp"
#include "plan/workload.hpp"

namespace zf {

/// The relative difference below which two times tie, unless the user asks for another accuracy.
inline constexpr double kDefaultTie = 0.02;
/// The largest tie, in units of the accuracy wanted. However noisy a machine is, a difference that is larger
/// than this counts.
inline constexpr double kLargestTie = 2.5;
/// A pool has headroom if the step could take this many times as long and still hide.
inline constexpr double kStepHeadroom = 2;

/// A split is not chosen that may be this much slower than the shared home, by its interval.
inline constexpr double kMuchSlower = 0.2;
/// How many times as fast as told training may be, or as long the step, where nothing has that headroom.
inline constexpr double kToldWrong = 1.5;
/// The factors of training and of the step, if the job is not as told in one of the two.
inline constexpr std::pair<double, double> kWaysToBeWrong[] = {{1 / kToldWrong, 1}, {1, kToldWrong}};

/// A tie that loses more than this if the job is not as told is at a cliff. Then a split may win that is up
/// to kWiderTie ties slower, if for each per cent it loses kPrice per cent less.
inline constexpr double kCliff = 0.1;
inline constexpr double kWiderTie = 2;
inline constexpr double kPrice = 2;

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
  int idle = 0;       ///< cores on neither side
  double step = 0;    ///< the optimizer's step; 0 if it is not known
  double window = 0;  ///< the training behind which the step can hide; 0 if there is none
  /// What it loses against the best split if training is kToldWrong times as fast or the step kToldWrong
  /// times as long, whichever is more, relative; 0 if that is not known.
  double loss_if_wrong = 0;
};

struct Contest {
  std::vector<Contender> contenders;
  Levels levels;
  Mode mode = Mode::wait;
  double accuracy = kDefaultTie;  ///< the smallest relative difference that counts
  double noise = 0;               ///< up to which difference two splits may be equal
};

/// With fewer degrees of freedom between visits, the spread within visits is looked at too.
inline constexpr int kFewFreedoms = 2;

/// Returns up to which difference two splits may be equal that have `visits` visits each. While few visits
/// say how much visits differ (kFewFreedoms), the spread within visits counts too. `samples` has the samples
/// of each visit; 0 if there are few visits of one sample each.
double noise_of(const Levels& levels, const std::vector<std::vector<double>>& samples, int visits);

/// Returns the largest difference that may be a tie: the accuracy or the noise, whichever is more, but at
/// most kLargestTie times the accuracy.
double tie_of(double accuracy, double noise);

/// Returns true if the slower of two ties with the faster: the difference is at most tie_of(), its interval
/// does not exclude the accuracy, and if the interval is unknown the noise is not above the accuracy.
bool is_tie(const Difference& slower, double accuracy, double noise);

/// Returns the index of the eligible contender with the lowest level, the first one among equals.
/// Precondition: an eligible contender has a visit.
std::size_t fastest_index(const Contest& contest);

/// Returns the index of the control; nothing if there is none with a visit.
std::optional<std::size_t> control_index(const Contest& contest, Control control);

/// Returns the contender that could win instead of `winner` because that one is at a cliff, if more visits
/// showed that it is less slow than it seems; nothing if there is none.
std::optional<std::size_t> undecided_refuge(const Contest& contest, std::size_t winner);

/// Returns the eligible contender with the lowest level except `index`; nothing if there is no other.
std::optional<std::size_t> runner_up_of(const Contest& contest, std::size_t index);

struct Judgement {
  std::size_t fastest = 0;
  std::size_t winner = 0;
  double tie = 0;                         ///< tie_of()
  std::optional<std::size_t> cliff = {};  ///< is preferred but at a cliff, so the winner took its place
  bool conservative =
      false;  ///< the winner is the shared home, because nothing beats it by more than the noise
};

/// Returns the preferred contender as the winner; if that one is at a cliff (kCliff), the one for which
/// loss_if_wrong and kPrice times the difference of their levels together are least, of those which are at
/// most kWiderTie ties slower than the fastest; or the control that shares the home if the noise exceeds the
/// accuracy and no other eligible contender beats that control by more than the noise. Precondition: an
/// eligible contender has a visit.
Judgement judge(const Contest& contest);

}  // namespace zf
