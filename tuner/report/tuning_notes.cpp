#include "report/tuning_notes.hpp"

#include "base/format.hpp"
#include "base/text.hpp"
#include "plan/period.hpp"
#include "text/units.hpp"

namespace zf {
namespace {

/// Returns true if the period depends on how training divides into forward and backward.
bool needs_forward_share(Mode mode) { return mode == Mode::backward || mode == Mode::exact; }

/// Returns for which mode the plan is made.
std::string mode_in_words(const TuningRequest& request, const TuningJob& job) {
  const bool is_simulated = job.model != nullptr;
  const bool is_default = !is_simulated && !request.mode && !request.has_workload_file;
  return format_text("mode {}, update interval {}{}", name_of(job.workload.mode),
                     job.workload.update_interval,
                     is_default ? " (the default; see --mode, --update-interval, --workload)" : "");
}

void add_recorder(std::vector<std::string>& notes, const TuningRequest& request,
                  const RecordingMeter& recorder) {
  for (const std::string& note : recorder.notes()) notes.push_back(one_line(note));
  if (recorder.recorded_visits() == 0) return;
  notes.push_back(
      format_text("continuing the interrupted sweep in {}, which has {} (--fresh starts a new one)",
                  sample_file_of(request.plan).string(), print_count(recorder.recorded_visits(), "visit")));
}

}  // namespace

std::vector<std::string> notes_before_sweep(const TuningRequest& request, const TuningJob& job,
                                            const RecordingMeter* recorder) {
  const Workload& workload = job.workload;
  std::vector<std::string> notes = {mode_in_words(request, job)};
  if (needs_forward_share(workload.mode) && workload.training && !workload.training->forward_share) {
    notes.emplace_back(
        "a third of a training step is taken as forward: an estimate "
        "(forward_share in a workload file sets it)");
  }
  if (workload.mode == Mode::exact && workload.training && !workload.training->first_group_share) {
    notes.push_back(format_text(
        "{:.0f} % of the parameters are taken as the first module's: an estimate by the model's size "
        "(first_group_share in a workload file sets it)",
        100 * schedule_of(workload, 1).first_group_share));
  }
  if (workload.step_factor && workload.step_factor != request.workload.step_factor) {
    notes.push_back(format_text(
        "the job's optimizer step is taken as {:.2f} times ours: an estimate by its bytes (step_factor in a "
        "workload file sets it)",
        *workload.step_factor));
  }
  if (!job.ranks_note.empty()) notes.push_back(job.ranks_note);
  if (recorder != nullptr) add_recorder(notes, request, *recorder);
  const double scale = job.meter ? job.meter->scale() : 1;
  if (const Nanoseconds copy = schedule_of(workload, scale).parameters_ns; copy != 0) {
    notes.push_back(
        format_text("each period includes {} for the copy of the new parameters, which no column has",
                    print_duration(copy)));
  }
  return notes;
}

std::string how_to_go_on(const TuningRequest& request, const RecordingMeter& recorder) {
  if (!recorder.can_continue()) return "";
  return format_text("the same command{} continues this sweep", request.fresh ? " without --fresh" : "");
}

}  // namespace zf
