// The evidence for a plan: every period that was measured, the summary of the sweep, and the trial of the job
// itself.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.hpp"

namespace zf {

/// The way in which the pool's cores are taken from a home: one L3 group after the other, or evenly from all.
enum class Placement { compact, spread };

/// Splits that are always measured, because people use them.
enum class Control {
  none,
  unbound,  ///< both sides float over all CPUs that the ranks may use; measured, but never written as a plan
  half,     ///< DeepSpeed's default, pt_reserved_cores_perc 0.5
  two_reserved,  ///< two cores for training, the rest for the optimizer
};

/// One measured period. After a barrier every rank runs one optimizer step and, beside it, the training steps
/// that hide it (Workload::update_interval of them). Times are those of the slowest rank, as measured on
/// Evidence::scale of the model.
struct SplitSample {
  Nanoseconds step_ns = 0;      ///< the optimizer step, while training runs
  Nanoseconds roofline_ns = 0;  ///< the roofline loop over the same memory, run alone just before or after
  Nanoseconds training_ns = 0;  ///< mean of the period's training steps; 0: there was no training side
  Nanoseconds launch_delay_p50_ns = 0;  ///< delay of a launch, median over the period
  Nanoseconds launch_delay_p99_ns = 0;
  std::uint64_t training_bytes = 0;  ///< moved by the training side in the period, over all ranks
  bool operator==(const SplitSample&) const = default;
};

/// Returns the length of the period, which the search minimizes: it lasts until its slower side is done.
inline Nanoseconds period_ns(const SplitSample& sample, int update_interval) {
  return std::max(sample.step_ns, update_interval * sample.training_ns);
}

/// Returns the part of the optimizer step that training does not hide.
inline Nanoseconds exposed_ns(const SplitSample& sample, int update_interval) {
  return period_ns(sample, update_interval) - update_interval * sample.training_ns;
}

/// One measured period, kept in the plan.
struct Sample {
  int candidate = 0;  ///< CandidateEvidence::id
  int round = 0;
  SplitSample times;
  bool operator==(const Sample&) const = default;
};

/// A split that was measured, and the summary of its samples. A spread is the interquartile range divided by
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
  std::optional<int> pool_kind;  ///< see Intent
  Nanoseconds period_ns_median = 0;
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
  double noise_floor = 0;      ///< relative; differences below it are ties
  double accuracy_wanted = 0;  ///< relative; the difference that the sweep was asked to resolve
  double accuracy_reached =
      0;  ///< relative; the widest interval that remained around a difference that matters
  std::vector<CandidateEvidence> candidates;
  std::vector<Sample> samples;
  bool operator==(const Evidence&) const = default;
};

/// A split that the user's own job ran under (`zf-tune trial`).
struct TrialCandidate {
  std::string label;  ///< as CandidateEvidence::label
  Control control = Control::none;
  int pool_threads = 0;  ///< per rank
  double median = 0;     ///< over the values of all runs
  std::vector<std::vector<double>>
      runs;  ///< for each run the values that the metric matched, in order, without the warm-up
  bool operator==(const TrialCandidate&) const = default;
};

/// The result of `zf-tune trial`.
struct Trial {
  std::string command;  ///< quoted for a shell
  std::string metric;   ///< regular expression (ECMAScript); its first group, or the whole match, is a number
  bool higher_is_better = false;  ///< true for a throughput, false for a time
  std::vector<TrialCandidate> candidates;
  int winner = 0;  ///< index into candidates
  bool operator==(const Trial&) const = default;
};

}  // namespace zf
