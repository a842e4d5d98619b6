// The parts of the page of report.hpp that have a file each. Pure. Precondition of all: every candidate of
// the plan has samples.
#pragma once

#include <string>
#include <vector>

#include "plan/plan.hpp"
#include "topology/topology.hpp"

namespace zf {

/// Returns the decision, as one sentence: how the cores are split, or that the job is best run unbound.
std::string headline_of(const Plan& plan);

/// Returns how unbound compares with the plan, as one sentence; or that no difference is known. Empty if
/// nothing was measured.
std::string certainty_of(const Plan& plan);

/// Returns a table as HTML: a row for the plan and one for each other split, fastest first, with its interval
/// drawn around a line for the plan, its figures and its verdict. All of these are those of
/// splits_beside_plan(). Splits of unknown difference have no row; of many splits, the slowest that
/// are no control have none. Returns an empty text if no difference is known.
std::string verdict_plot(const Plan& plan);

/// What the reader of a plan types next.
struct NextStep {
  std::vector<std::string> commands;  ///< lines for a shell; may be empty
  std::string words;                  ///< what to put in their place, or what to do without one
};

/// Returns how the job is started under the plan, which is in `plan_file`; or without it, if running unbound
/// is better. Takes the launcher from the plan's framework, and the job from its trial. A plan of a simulated
/// machine starts nothing.
NextStep next_step(const Plan& plan, const std::string& plan_file);

/// Draws the machine as nested boxes: packages, NUMA nodes, L3 groups, cores and PUs. Returns it as HTML. The
/// hue of a PU stands for its rank and the pattern for its side. Both are also written on the PU: T3 trains
/// rank 3, O3 runs its optimizer, S3 does both. Boxes wrap to the width of the page. Precondition: the
/// topology has no CPU that the plan's machine lacks.
std::string machine_drawing(const Plan& plan, const Topology& topology);

/// Returns all that a plan tells about its machine: its PUs, each as a core of its own.
Topology bare_topology(const Plan& plan);

/// Draws both sides of a period over the size of the pool (sides.hpp). Returns the chart as HTML, with its
/// legend and a caption. Returns an empty text if pools of fewer than two sizes were measured: then the table
/// says as much.
std::string sides_plot(const Plan& plan);

}  // namespace zf
