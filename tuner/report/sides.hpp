// Both sides of a period over the size of the pool: how long training and the optimizer take, and where they
// cross. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plan/plan.hpp"

namespace zf {

/// A time, in nanoseconds: that of the table's row, and between which times half of the samples lie.
struct Quartiles {
  double low = 0;
  double median = 0;
  double high = 0;
};

/// Both sides of a split, by the visits of the search, as the table has them.
struct SidesPoint {
  int pool_threads = 0;  ///< per rank
  bool chosen = false;
  std::optional<Quartiles>
      training;    ///< what the step is compared with: see sides_of(); absent: not measured
  Quartiles step;  ///< the job's own
};

struct Sides {
  std::vector<SidesPoint> divided;  ///< homes that are divided; fewest threads first
  std::vector<SidesPoint> shared;   ///< homes that both sides have; fewest threads first
};

/// Returns both sides of every split that a plan can express; of splits with pools of one size, the chosen
/// one, or the one with the shortest period. Training is the part of a period behind which the job's mode
/// hides the step (window_of()); in mode wait, where it hides behind nothing, it is all of the training.
Sides sides_of(const Plan& plan);

/// Returns what the training side of a point is: "4 training steps", "the backward of a training step".
std::string training_in_words(const Workload& workload);

/// Returns how both sides make a period, and where they cross.
std::string sides_in_words(const Plan& plan, const Sides& sides);

}  // namespace zf
