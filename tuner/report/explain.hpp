// Explains a plan in words: what was chosen, from which evidence, and why. Pure.
#pragma once

#include <string>
#include <vector>

#include "plan/plan.hpp"
#include "text/table.hpp"

namespace zf {

/// The first cell of the row that was chosen.
inline constexpr const char* kChosenMark = ">";
/// The title of the column that comparisons quote.
inline constexpr const char* kCheckedTitle = "checked after the choice";

struct Fact {
  std::string name;  ///< "Machine"
  std::string text;
};

/// Returns the machine, the allocation and the workload in words.
std::vector<Fact> facts_of(const Plan& plan);

/// Returns the bindings, one row per rank.
Table bindings_table(const Plan& plan);

/// Returns how the evidence was measured, as one sentence without its full stop. Precondition: there is
/// evidence.
std::string measured_in_words(const Plan& plan);

/// Returns the evidence, one row per candidate, fewest pool threads first. The chosen candidate is marked.
/// Each column has what the search measured, except the one with kCheckedTitle, which is there if
/// was_checked(). The optimizer's step is the job's own; if that is not ours, ours is a detail.
Table evidence_table(const Plan& plan);

/// Returns the results of the trial, one row per split. The winner is marked.
Table trial_table(const Trial& trial);

/// Returns what the figures of the last table compare, and which sign is faster, without a full stop; "" if
/// it has no such figures.
std::string sign_in_words(const Plan& plan);

/// Returns "the plan costs less than 5 % … until training is 1.8 times as fast, or the step 2.3 times as
/// long."
std::string headroom_in_words(const Headroom& headroom);

/// Returns the bytes per second, of all ranks together, of an optimizer step or a roofline loop that took
/// `step_ns`.
double step_bytes_per_s(const Plan& plan, Nanoseconds step_ns);

/// Returns the whole plan for a person: machine, allocation, bindings, evidence, reason, notes and warnings.
/// Breaks lines and leaves out details to fit `width` columns.
std::string explain(const Plan& plan, std::size_t width = kUnlimitedWidth);

}  // namespace zf
