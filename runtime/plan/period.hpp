// The objective: how long a period takes, by the mode in which the job overlaps its two sides. Pure.
#pragma once

#include <algorithm>

#include "plan/evidence.hpp"
#include "plan/workload.hpp"

namespace zf {

/// The rule by which the times of both sides make a period.
struct Schedule {
  Mode mode = Mode::wait;
  int update_interval = 1;
  double forward_share = kForwardShare;  ///< of a training step
  Nanoseconds parameters_ns = 0;         ///< the copy of the new parameters, if the next step waits for it
  double step_factor = 1;                ///< the job's own step divided by the step that is measured
  double first_group_share = 0;          ///< the first module's part of the optimizer step (exact)
  double last_forward_share = 0;         ///< the last module's forward, of a training step (exact)
  Nanoseconds last_gradient_ns = 0;      ///< TrainingDemand::last_gradient_ns (exact)
  bool operator==(const Schedule&) const = default;
};

/// Returns the schedule of a workload. scale: the part of the workload that is measured.
Schedule schedule_of(const Workload& workload, double scale);

/// Returns the part of a period's training behind which the optimizer step can hide: all training steps
/// (overlap), one backward (backward), one forward without that of the last module: its parameters are the
/// last to be stepped (exact), or nothing (wait).
template <class Time>
double window_of(Time training, const Schedule& schedule) {
  const auto step = static_cast<double>(training);
  switch (schedule.mode) {
    case Mode::overlap:
      return schedule.update_interval * step;
    case Mode::backward:
      return (1 - schedule.forward_share) * step;
    case Mode::exact:
      return std::max(0.0, schedule.forward_share - schedule.last_forward_share) * step;
    case Mode::wait:
      break;
  }
  return 0;
}

/// Returns the part of the optimizer step that training does not hide. In mode exact the first module is
/// never hidden: its gradient comes last, and the forward begins with its parameters.
inline double exposed_of(double training, double step, const Schedule& schedule) {
  const double whole = schedule.step_factor * step;
  const double exposed = std::max(0.0, whole - window_of(training, schedule));
  return schedule.mode == Mode::exact ? std::max(exposed, schedule.first_group_share * whole) : exposed;
}

/// Returns the length of a period, which the search minimizes: update_interval training steps, what they do
/// not hide of the optimizer step, and the copy of the parameters. `step` is the measured one; the job's own
/// is step_factor times as long. With U = update_interval and `step` for the job's own, this is
/// - max(U × training, step) in mode overlap,
/// - (U − 1) × training + forward + max(backward, step) in mode backward,
/// - (U − 1) × training + backward + last gradient + max(first group + forward, step + last module's forward)
///   in mode exact, where the first group is its share of the step,
/// - U × training + step in mode wait.
inline double period_of(double training, double step, const Schedule& schedule) {
  return schedule.update_interval * training + exposed_of(training, step, schedule) +
         static_cast<double>(schedule.parameters_ns + schedule.last_gradient_ns);
}

inline double period_ns(const SplitSample& sample, const Schedule& schedule) {
  return period_of(static_cast<double>(sample.training_ns), static_cast<double>(sample.step_ns), schedule);
}

inline double exposed_ns(const SplitSample& sample, const Schedule& schedule) {
  return exposed_of(static_cast<double>(sample.training_ns), static_cast<double>(sample.step_ns), schedule);
}

}  // namespace zf
