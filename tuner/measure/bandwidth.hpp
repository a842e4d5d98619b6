// One node's memory bandwidth held against a plan's evidence: is this node slower than the one that was
// measured?
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "machine/machine.hpp"
#include "plan/plan.hpp"

namespace zf {

/// A node this much below the plan's evidence is slow; more where the evidence itself spread wider.
inline constexpr double kSlowNode = 0.10;

/// Bytes per second, all ranks at once, medians. A step moves kAdamBytesPerParam bytes per parameter, and so
/// does the roofline loop.
struct Bandwidth {
  double roofline = 0;
  double step = 0;
};

/// What the plan's own split reached when it was measured, and how much that spread.
struct PlannedBandwidth {
  Bandwidth median;
  double spread = 0;    ///< of the roofline: interquartile range over median
  bool loaded = false;  ///< training ran beside the steps: alone they are faster
};

/// Pure. Throws Error(usage) when nothing was measured.
PlannedBandwidth planned_bandwidth(const Plan& plan);

/// Runs the plan's pools, all ranks at once, over the evidence's working set. Everything happens in a child
/// process that is killed at the deadline: absent, not one pass was done by then. Throws Error(infeasible)
/// when memory does not hold the working set, Error(runtime_error) when the pools cannot be set up. Call it
/// before threads are started.
std::optional<Bandwidth> measure_bandwidth(const Plan& plan, const Allowed& allowed,
                                           std::chrono::milliseconds deadline);

struct BandwidthVerdict {
  bool slow = false;
  std::string words;  ///< one line
};

/// Pure. `host`: this node's name.
BandwidthVerdict compare_bandwidth(const Plan& plan, const PlannedBandwidth& planned,
                                   const std::optional<Bandwidth>& now, const std::string& host);

}  // namespace zf
