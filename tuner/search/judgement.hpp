// Judges which of several splits that were timed side by side wins. The sweep and `trial` both use it. Pure.
#pragma once

#include <vector>

#include "plan/evidence.hpp"
#include "text/statistics.hpp"

namespace zf {

/// The relative difference below which two times tie, unless the user asks for another accuracy.
inline constexpr double kDefaultTie = 0.02;

/// The size of an optimizer pool per rank. The pool with fewer threads is smaller; of two with as many
/// threads, the one on fewer cores.
struct PoolSize {
  int threads = 0;
  int cores = 0;
  auto operator<=>(const PoolSize&) const = default;
};

/// One split as the judgement sees it.
struct Contender {
  bool eligible = true;  ///< false if no plan can express it (unbound): it is compared with, but never wins
  Control control = Control::none;
  PoolSize pool;
  double median = 0;               ///< of all times; smaller is better
  std::vector<Observation> times;  ///< times of one block were measured side by side
};

/// Returns the number of blocks (rounds, or runs) in which this contender was timed.
int block_count(const Contender& contender);

/// Returns the index of the eligible contender with the smallest median, the first one among equals. If no
/// contender is eligible, all count. Precondition: there is a contender.
std::size_t fastest_index(const std::vector<Contender>& contenders);

/// Returns the index of the control, or -1 if there is none.
int control_index(const std::vector<Contender>& contenders, Control control);

/// Returns how much longer `b` takes than `a`, compared block by block.
Difference difference_of(const Contender& a, const Contender& b);

/// Returns the index of the knee: the eligible contender with the smallest pool among those that tie with the
/// fastest one (is_tie()). If none ties, the fastest one is the knee.
std::size_t knee_index(const std::vector<Contender>& contenders, double tie);

/// Returns by how much two visits to the same split differ (noise_between_blocks()), for as many blocks as
/// the fastest contender has.
double noise_floor(const std::vector<Contender>& contenders);

struct Verdict {
  std::size_t fastest = 0;
  std::size_t winner = 0;
  double tie = 0;  ///< the larger of the accuracy and the noise
  bool conservative =
      false;  ///< the winner is half and half, because nothing beats it by more than the noise
};

/// Returns the knee as the winner, or the half-and-half control if the noise exceeds the accuracy and no
/// other eligible contender beats that control by more than the noise. Precondition: a contender is eligible.
Verdict judge(const std::vector<Contender>& contenders, double accuracy, double noise);

}  // namespace zf
