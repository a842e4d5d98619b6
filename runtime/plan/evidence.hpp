// The evidence for a plan: every period that was measured, and the summary of the sweep.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "plan/split_kind.hpp"

namespace zf {

/// One measured period. After a barrier every rank runs one optimizer step and Workload::update_interval
/// training steps: in mode wait first these and then that, otherwise both at once. Times are those of the
/// slowest rank, as measured on Evidence::scale of the model. period_ns() makes a period of them.
struct SplitSample {
  Nanoseconds step_ns = 0;      ///< the optimizer step; while training runs, unless the mode is wait
  Nanoseconds roofline_ns = 0;  ///< the roofline loop over the same memory, run alone once per visit
  Nanoseconds training_ns = 0;  ///< mean of the period's training steps; 0: there was no training side
  Nanoseconds launch_delay_p50_ns = 0;  ///< delay of a launch, median over the period
  Nanoseconds launch_delay_p99_ns = 0;
  std::uint64_t training_bytes = 0;  ///< moved by the training side in the period, over all ranks
  bool operator==(const SplitSample&) const = default;
};

/// One measured period, kept in the plan. A visit sets a split up and measures some periods: its samples are
/// those of one candidate in one round. The visits of a round came one after the other.
struct Sample {
  int candidate = 0;  ///< CandidateEvidence::id
  int round = 0;
  SplitSample times;
  bool operator==(const Sample&) const = default;
};

/// A split that was measured, and the summary of its samples. The times of its two sides make its period, by
/// period_of(): all three are fitted to its visits. A spread is the interquartile range of samples divided by
/// the median.
struct CandidateEvidence {
  int id = 0;
  std::string label;  ///< "pool 4, compact"
  Control control = Control::none;
  int reserved_cores = 0;  ///< per rank; the smallest of any rank
  int pool_cores = 0;      ///< per rank
  int pool_threads = 0;    ///< per rank
  int idle_cores = 0;      ///< per rank; on neither side
  Placement placement = Placement::compact;
  std::optional<int> pool_make;      ///< see Intent
  Nanoseconds period_ns_median = 0;  ///< without the drift between rounds; see levels_of()
  double period_spread = 0;
  Nanoseconds step_ns_median = 0;
  double step_spread = 0;
  Nanoseconds training_ns_median = 0;  ///< 0: there was no training side
  double training_spread = 0;
  Nanoseconds exposed_ns_median = 0;
  Nanoseconds launch_delay_p50_ns = 0;  ///< median over samples
  Nanoseconds launch_delay_p99_ns = 0;  ///< median over samples
  double roofline_ratio = 0;            ///< median over samples of step bandwidth / roofline bandwidth
  bool operator==(const CandidateEvidence&) const = default;
};

struct Roofline {
  double bytes_per_s_median = 0;  ///< of the best candidate, over all ranks
  int threads = 0;                ///< over all ranks
  bool operator==(const Roofline&) const = default;
};

/// The value of Evidence::isa if the machine was simulated and nothing was measured on a real one.
inline constexpr const char* kSimulated = "simulated";

struct Evidence {
  Roofline roofline;
  std::uint64_t elements_per_rank = 0;
  std::uint64_t working_set_bytes_per_rank = 0;
  double scale =
      0;  ///< part of the model that was measured, the same for both sides; 0: nothing was measured
  std::string isa;
  double noise_floor = 0;      ///< relative; up to which difference two splits may be equal (95 %)
  double accuracy_wanted = 0;  ///< relative; the difference that the sweep was asked to resolve
  double accuracy_reached =
      0;  ///< relative; half of the interval of the difference between the chosen split and its runner-up
  /// Rounds from this one on were visited after the choice, to estimate its differences to others without the
  /// luck of having been chosen; -1: there are none.
  int estimate_round = -1;
  std::vector<CandidateEvidence> candidates;
  std::vector<Sample> samples;
  bool operator==(const Evidence&) const = default;
};

}  // namespace zf
