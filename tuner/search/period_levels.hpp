// The periods of a sweep by its visits: those that led to the choice, and those that checked it. Pure.
#pragma once

#include <cstddef>
#include <vector>

#include "compare/levels.hpp"
#include "plan/evidence.hpp"
#include "plan/period.hpp"
#include "search/decision.hpp"

namespace zf {

/// Which visits of a sweep: those of the search, from which the choice was made, or those after the choice,
/// in which it has no luck of having been chosen.
enum class VisitsOf { search, check };

/// Returns whether the sample came after the choice.
bool came_after_choice(const Evidence& evidence, const Sample& sample);

/// The period that a visit showed.
struct VisitPeriod {
  double ns = 0;     ///< the period of the medians of both sides
  double error = 0;  ///< its standard error by the spread of the samples, relative; 0 of a single sample
};

/// Returns the period of a visit: that of the medians of both sides. It is not the median of the periods. A
/// period is as long as its slower side: if a fifth of each side's times are outliers, 36 % of the periods
/// are outliers, and often the median of eight periods is one of them. Precondition: there is a sample.
VisitPeriod period_of_visit(const std::vector<SplitSample>& samples, const Schedule& schedule);

/// One visit of a sweep.
struct SweepVisit {
  std::size_t candidate = 0;  ///< position in Evidence::candidates
  int round = 0;
  VisitPeriod period;
  std::vector<SplitSample> samples;
};

/// Returns these visits, ordered by round. Precondition: the evidence has the candidate of every sample.
std::vector<SweepVisit> visits_of(const Evidence& evidence, const Schedule& schedule, VisitsOf which);

/// Returns both sides of the candidate with this id, and the period that they make, with few outliers. Of one
/// visit the lower quartile counts: where outliers are frequent, one visit in twenty has one in its median,
/// on the side that the other one hides, and no larger pool seems promising. (With medians, 95 % of sweeps of
/// such a machine lose up to 7.0 instead of 2.3 %.) Of the three samples of a hopeless visit the shortest
/// times count, of several visits the medians. Precondition: there is a sample.
SplitTimes undisturbed_times(const Evidence& evidence, int id, const Schedule& schedule);

/// Returns how many periods of the candidate with this id were measured in these visits.
std::size_t count_periods(const Evidence& evidence, int id, VisitsOf which);

/// Returns the levels of the visits' periods, in nanoseconds. Candidates are positions in
/// Evidence::candidates, blocks are rounds.
Levels levels_of(const Evidence& evidence, const std::vector<SweepVisit>& visits);

/// Returns the times of every candidate by these visits. levels: levels_of() the visits. The period is the
/// level. Training and the step are medians of the samples of the visits that the levels rest on, multiplied
/// by one factor, so that they make the period: the drift that was taken out of it is taken out of them too.
std::vector<SplitTimes> fitted_times(const std::vector<SweepVisit>& visits, const Levels& levels,
                                     const Schedule& schedule);

}  // namespace zf
