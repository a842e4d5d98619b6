// The periods of a sweep by its visits: those that led to the choice, and those that checked it. Pure.
#pragma once

#include <cstddef>
#include <vector>

#include "compare/levels.hpp"
#include "plan/evidence.hpp"
#include "plan/period.hpp"

namespace zf {

/// Which visits of a sweep: those of the search, from which the choice was made, or those after the choice,
/// in which it has no luck of having been chosen.
enum class VisitsOf { search, check };

/// Returns whether the sample came after the choice.
bool came_after_choice(const Evidence& evidence, const Sample& sample);

/// The periods of one visit.
struct VisitPeriods {
  std::size_t candidate = 0;  ///< position in Evidence::candidates
  int round = 0;
  std::vector<double> periods;  ///< nanoseconds
};

/// Returns these visits, ordered by round. Precondition: the evidence has the candidate of every sample.
std::vector<VisitPeriods> visits_of(const Evidence& evidence, const Schedule& schedule, VisitsOf which);

/// Returns how many periods of the candidate with this id were measured in these visits.
std::size_t count_periods(const Evidence& evidence, int id, VisitsOf which);

/// Returns the levels of the visits' medians, in nanoseconds. Candidates are positions in
/// Evidence::candidates, blocks are rounds.
Levels levels_of(const Evidence& evidence, const std::vector<VisitPeriods>& visits);

}  // namespace zf
