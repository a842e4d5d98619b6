// What the user's own job said under a few splits: the evidence of `zf-tune trial`.
#pragma once

#include <string>
#include <vector>

#include "plan/evidence.hpp"

namespace zf {

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
