// What a plan rests on: every period that was measured, and what the sweep made of them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.hpp"

namespace zf {

/// How the pool's cores are picked from a home: fill one L3 group after the other, or take from all evenly.
enum class Placement { compact, spread };

/// Splits that are measured whatever the search thinks of them, because people use them.
enum class Control {
  none,
  unbound,       ///< both sides float over all that the ranks may use; measured, never written as a plan
  half,          ///< DeepSpeed's default, pt_reserved_cores_perc 0.5
  two_reserved,  ///< two cores for training, the rest for the optimizer
};

/// One period: from a barrier on, every rank runs one optimizer step and, beside it, the training steps that
/// hide it (Workload::update_interval of them). Times are those of the slowest rank, as measured: over
/// Evidence::scale of the model.
struct SplitSample {
  Nanoseconds step_ns = 0;      ///< the optimizer step, while training runs
  Nanoseconds roofline_ns = 0;  ///< the roofline loop over the same memory just beside it, alone
  Nanoseconds training_ns = 0;  ///< one training step, mean of the period's; 0: there was no training side
  Nanoseconds launch_delay_p50_ns = 0;  ///< how late a launch came, median of the period's launches
  Nanoseconds launch_delay_p99_ns = 0;
  std::uint64_t training_bytes = 0;  ///< moved by the training side in the period, all ranks together
  bool operator==(const SplitSample&) const = default;
};

/// What is minimized: the period lasts until its slower side is done.
inline Nanoseconds period_ns(const SplitSample& sample, int update_interval) {
  return std::max(sample.step_ns, update_interval * sample.training_ns);
}

/// The part of the optimizer step that training does not hide.
inline Nanoseconds exposed_ns(const SplitSample& sample, int update_interval) {
  return period_ns(sample, update_interval) - update_interval * sample.training_ns;
}

/// One measured period, kept for ever.
struct Sample {
  int candidate = 0;  ///< CandidateEvidence::id
  int round = 0;
  SplitSample times;
  bool operator==(const Sample&) const = default;
};

/// One split that was measured, and the summary of its samples. A spread is the interquartile range divided
/// by the median.
struct CandidateEvidence {
  int id = 0;
  std::string label;  ///< "pool 4, compact"
  Control control = Control::none;
  int reserved_cores = 0;  ///< per rank, the smallest of any rank
  int pool_cores = 0;      ///< per rank
  int pool_threads = 0;    ///< per rank
  int idle_cores = 0;      ///< per rank: on neither side
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
  double bytes_per_s_median = 0;  ///< the best candidate's, all ranks together
  int threads = 0;                ///< over all ranks
  bool operator==(const Roofline&) const = default;
};

/// Evidence::isa where a simulated machine was asked, and nothing was measured on a real one.
inline constexpr const char* kSimulated = "simulated";

struct Evidence {
  Roofline roofline;
  std::uint64_t elements_per_rank = 0;
  std::uint64_t working_set_bytes_per_rank = 0;
  double scale = 0;  ///< part of the model that was measured, both sides alike; 0: nothing was measured
  std::string isa;
  double noise_floor = 0;      ///< relative; differences below it are ties
  double accuracy_wanted = 0;  ///< relative; what the sweep was asked to tell apart
  double accuracy_reached =
      0;  ///< relative; the widest interval that it left around a difference that matters
  std::vector<CandidateEvidence> candidates;
  std::vector<Sample> samples;
  bool operator==(const Evidence&) const = default;
};

/// One split that the job ran under.
struct TrialCandidate {
  std::string label;  ///< as CandidateEvidence::label
  Control control = Control::none;
  int pool_threads = 0;  ///< per rank
  double median = 0;     ///< of all runs' values
  std::vector<std::vector<double>>
      runs;  ///< of each run what the metric matched, in order, without the warm-up
  bool operator==(const TrialCandidate&) const = default;
};

struct Trial {
  std::string command;  ///< as a shell would take it
  std::string metric;   ///< regular expression (ECMAScript); its first group, or all of it, is a number
  bool higher_is_better = false;  ///< a throughput; else a time
  std::vector<TrialCandidate> candidates;
  int winner = 0;  ///< index into candidates
  bool operator==(const Trial&) const = default;
};

}  // namespace zf
