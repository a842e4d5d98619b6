// The split that was chosen, and why.
#pragma once

#include <optional>
#include <string>

#include "base/clock.hpp"

namespace zf {

/// How much the job may differ from its workload before the plan costs 5 %.
struct Headroom {
  double training_speedup = 1;  ///< how many times faster training may be
  double step_slowdown = 1;     ///< how many times longer the optimizer step may take
  bool operator==(const Headroom&) const = default;
};

struct Choice {
  std::string reason;
  int candidate = -1;                     ///< CandidateEvidence::id; -1: nothing was measured
  Nanoseconds period_ns_median = 0;       ///< 0: nothing was measured
  int pool_threads = 0;                   ///< per rank; the largest of any rank
  std::optional<Headroom> headroom = {};  ///< absent: not known
  bool operator==(const Choice&) const = default;
};

}  // namespace zf
