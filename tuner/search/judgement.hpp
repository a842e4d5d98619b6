// Which of several things that were timed side by side wins: the one judgement of the sweep and of `trial`.
// Pure.
#pragma once

#include <vector>

#include "plan/evidence.hpp"
#include "text/statistics.hpp"

namespace zf {

/// The relative difference below which two times tie, unless the user asks for another accuracy.
inline constexpr double kDefaultTie = 0.02;

/// The size of an optimizer pool per rank. A pool with fewer threads is smaller; with as many threads, the
/// one on fewer cores.
struct PoolSize {
  int threads = 0;
  int cores = 0;
  auto operator<=>(const PoolSize&) const = default;
};

/// One split as the judgement sees it.
struct Contender {
  bool eligible = true;  ///< false if no plan can say it (unbound): then it is compared with, and never wins
  Control control = Control::none;
  PoolSize pool;
  double median = 0;               ///< of all times; smaller is better
  std::vector<Observation> times;  ///< blocks are what was measured side by side
};

/// Returns the number of blocks (rounds, or runs) in which this contender was timed.
int block_count(const Contender& contender);

/// The index of the contender whose median is the smallest, the first one among equals. If no contender is
/// eligible, all count. Precondition: there is one.
std::size_t fastest_index(const std::vector<Contender>& contenders);

/// Returns the index of the control, or -1 if there is none.
int control_index(const std::vector<Contender>& contenders, Control control);

/// Returns how much longer b takes than a, block by block.
Difference difference_of(const Contender& a, const Contender& b);

/// Returns the knee: the eligible contender with the smallest pool among those that tie with the fastest one
/// (is_tie()). Without a tie it is the fastest one.
std::size_t knee_index(const std::vector<Contender>& contenders, double tie);

/// What two visits to the same split disagree by (noise_between_blocks()), for as many blocks as the fastest
/// contender has.
double noise_floor(const std::vector<Contender>& contenders);

struct Verdict {
  std::size_t fastest = 0;
  std::size_t winner = 0;
  double tie = 0;  ///< the larger of the accuracy and the noise
  bool conservative =
      false;  ///< the winner is half and half, because nothing beats it by more than the noise
};

/// Returns the knee as the winner; or the half-and-half control if the noise exceeds the accuracy and no
/// other eligible contender beats that control by more than the noise. Precondition: a contender is eligible.
Verdict judge(const std::vector<Contender>& contenders, double accuracy, double noise);

}  // namespace zf
