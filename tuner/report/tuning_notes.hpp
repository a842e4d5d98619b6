// What the user is told before and after a sweep, one line each. Pure.
#pragma once

#include <string>
#include <vector>

#include "search/tuning_job.hpp"

namespace zf {

/// Returns for which mode the plan is made, and how to change it if the user did not choose it; which numbers
/// of the workload are estimates; where the number of ranks comes from; and whether the recorder, which may
/// be null, goes on with an interrupted sweep.
std::vector<std::string> notes_before_sweep(const TuningRequest& request, const TuningJob& job,
                                            const RecordingMeter* recorder);

/// Returns how to go on with a sweep that was interrupted; "" if its samples do not allow that.
std::string how_to_go_on(const TuningRequest& request, const RecordingMeter& recorder);

}  // namespace zf
