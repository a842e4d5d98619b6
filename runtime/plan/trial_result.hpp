// The result of a trial: the user's own job, run under several splits.
#pragma once

#include <string>
#include <vector>

#include "plan/split_kind.hpp"

namespace zf {

/// A split that the user's own job ran under (`zf-tune trial`).
struct TrialCandidate {
  std::string label;  ///< as CandidateEvidence::label
  Control control = Control::none;
  bool shared = false;   ///< both sides have the whole home
  int pool_threads = 0;  ///< per rank
  double median = 0;     ///< over all runs, without the drift between repetitions
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
