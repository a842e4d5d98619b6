// Compares the memory bandwidth of this node with a plan's evidence: is it slower than the node that was
// measured?
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "machine/machine.hpp"
#include "plan/plan.hpp"

namespace zf {

/// A node is slow if its roofline or its step is this much below the plan's evidence, or by the evidence's
/// own spread if that is more.
inline constexpr double kSlowNode = 0.10;

/// A spread of the evidence above which it cannot tell a slow node from a fast one.
inline constexpr double kMostSpread = 0.5;

/// Medians in bytes per second, with all ranks at once.
struct Bandwidth {
  double roofline = 0;
  double step = 0;
};

/// The bandwidth that the plan's own split reached when it was measured, and its spread.
struct PlannedBandwidth {
  Bandwidth median;
  struct Spread {
    double roofline = 0;
    double step = 0;
  } spread;             ///< interquartile range over median
  bool loaded = false;  ///< training ran beside the steps, which are faster alone
};

/// Returns whether a slow node can be told by this, which the roofline decides: steps that spread too much
/// are left out of the comparison. If not, compare_bandwidth() needs no measurement. Pure.
bool can_tell(const PlannedBandwidth& planned);

/// Returns the bandwidth in the plan's evidence. Pure. Throws Error(usage) if nothing was measured.
PlannedBandwidth planned_bandwidth(const Plan& plan);

/// Returns what of `allowed` keeps this process from measuring the plan's pools, in words: CPUs or memory
/// nodes that it may not use, a CPU quota for fewer threads, or a memory limit below the working set. Returns
/// nothing if nothing does. Pure.
std::optional<std::string> why_confined(const Plan& plan, const Allowed& allowed);

/// Runs the plan's pools, all ranks at once, over the evidence's working set, in a child process that is
/// killed at the deadline. Returns nothing if not one pass was finished by then. Throws Error(infeasible) if
/// the working set does not fit into the available memory, and Error(runtime_error) if the pools cannot be
/// set up. Call it before threads are started.
std::optional<Bandwidth> measure_bandwidth(const Plan& plan, const Allowed& allowed,
                                           std::chrono::milliseconds deadline);

/// Returns a warning for a plan with evidence that spreads so much that no node can be compared with it, or
/// by its roofline alone; "" if neither, or if nothing was measured. Pure.
std::string spread_warning(const Plan& plan);

struct BandwidthVerdict {
  bool slow = false;
  bool known = true;  ///< false: the evidence spreads too much to tell
  std::string words;  ///< one line
};

/// Returns the verdict where why_confined() said `why`. Pure.
BandwidthVerdict unmeasured_bandwidth(const std::string& host, const std::string& why);

/// Compares what was planned with what was measured now. `host` is the name of this node. Pure.
BandwidthVerdict compare_bandwidth(const Plan& plan, const PlannedBandwidth& planned,
                                   const std::optional<Bandwidth>& now, const std::string& host);

}  // namespace zf
