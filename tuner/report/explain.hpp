// A plan in words: what was chosen, from what evidence, and why. Pure.
#pragma once

#include <string>
#include <vector>

#include "plan/plan.hpp"
#include "text/table.hpp"

namespace zf {

/// What the first cell of a row says where the row is the one that was chosen.
inline constexpr const char* kChosenMark = ">";

struct Fact {
  std::string name;  ///< "Machine"
  std::string text;
};

/// Machine, allocation, workload.
std::vector<Fact> facts_of(const Plan& plan);

/// The bindings, one row per rank.
Table bindings_table(const Plan& plan);

/// How the evidence was measured, as one sentence without its end. Precondition: there is some.
std::string measured_in_words(const Plan& plan);

/// The evidence, one row per candidate, fewest pool threads first, the chosen one marked.
Table evidence_table(const Plan& plan);

/// What the job itself said, one row per split, the winner marked.
Table trial_table(const Trial& trial);

/// Bytes per second of an optimizer step (or of its roofline) that took `step_ns`, all ranks together.
double step_bytes_per_s(const Plan& plan, Nanoseconds step_ns);

/// Returns the whole plan for a person: machine, allocation, bindings, evidence, reason, notes and warnings.
/// Lines are broken and details left out to fit `width` columns.
std::string explain(const Plan& plan, std::size_t width = kUnlimitedWidth);

}  // namespace zf
