// Compares measured splits, for all that is said of a plan: each pair has one figure. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "compare/comparison.hpp"
#include "compare/levels.hpp"
#include "plan/plan.hpp"

namespace zf {

/// Returns the candidate with this number; null if the evidence has none.
const CandidateEvidence* candidate_with(const Evidence& evidence, int id);
/// Returns the candidate that the plan chose; null if the evidence has none.
const CandidateEvidence* chosen_of(const Plan& plan);

/// Returns what a sentence calls a split: `unbound`, or its label in quotes.
std::string name_in_words(Control control, const std::string& label);

/// Returns how a candidate of the sweep compares with another one: by the visits after the choice if they
/// are enough for an interval, otherwise by those of the search. Both are ids of candidates in the evidence.
Comparison compared(const Evidence& evidence, const Workload& workload, int id, int other);

/// Returns the period of a candidate by the visits after the choice; nothing if it has none.
std::optional<Nanoseconds> checked_period_ns(const Evidence& evidence, const Workload& workload, int id);

/// Returns how a candidate of a trial compares with another one. Both are positions in Trial::candidates.
Comparison compared(const Trial& trial, std::size_t index, std::size_t other);

/// Returns how a control compares with the plan: by the trial if the job itself was tried, otherwise by the
/// sweep. Returns nothing if either was not measured, or if the control is the plan.
std::optional<Comparison> control_beside_plan(const Plan& plan, Control control);

/// A measured split that is not the plan's.
struct OtherSplit {
  std::string label;
  Control control = Control::none;
  Comparison comparison;  ///< with the plan's split
};

/// Returns how every other split compares with the plan's: by the trial if the job itself was tried,
/// otherwise by the sweep. Keeps the order of the evidence. Returns nothing if the plan's split was not
/// measured.
std::vector<OtherSplit> splits_beside_plan(const Plan& plan);

/// Returns whether running unbound is surely faster than the winner of the trial, by more than a tie.
bool is_unbound_better(const Trial& trial);
/// Returns whether the plan's reason advises to run the job unbound: the trial, or the sweep, showed that it
/// is surely faster than what a plan can express.
bool is_unbound_better(const Plan& plan);

/// Returns whether splits were visited again after the plan was chosen. A trial chooses anew, by other
/// measurements.
bool was_checked(const Plan& plan);

}  // namespace zf
