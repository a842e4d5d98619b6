// What `zf-tune tune` does: from a job on a machine, by a sweep, to a plan.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "homes/rank_homes.hpp"
#include "measure/sample_file.hpp"
#include "plan/plan.hpp"
#include "search/sweep.hpp"
#include "simulate/simulated_model.hpp"

namespace zf {

/// What the user asked for.
struct TuningRequest {
  /// `params` 0: the model is as large as what is measured. `ranks` 0: as many as the node's launcher or GPUs
  /// say.
  Workload workload;
  bool has_workload_file = false;  ///< the training side is the file's own, even if it has none
  std::optional<int> ranks;        ///< --ranks
  SweepLimits limits;
  bool for_deepspeed = false;
};

/// A job on a machine, real or simulated, ready to be measured.
struct TuningJob {
  Machine machine;
  Workload workload;
  RankGpus gpus;
  RankHomes placed;                       ///< the homes that are measured
  std::vector<Home> free_homes;           ///< those of a free choice, where for_deepspeed restricts `placed`
  std::unique_ptr<SimulatedModel> model;  ///< what `meter` measures, if it is simulated
  std::unique_ptr<Meter> meter;
  std::vector<std::string> warnings;
};

/// Returns the job on the machine that this process runs on. Throws Error(usage) if `machine` is another one,
/// and as rank_homes() does.
TuningJob job_on_this_machine(Machine machine, const TuningRequest& request);

/// Returns the job on the simulated machine of a file; the request's workload takes the place of the
/// machine's own if it has parameters. Throws as simulated_job() does.
TuningJob job_on_simulated_machine(const std::filesystem::path& file, const TuningRequest& request);

/// Returns a meter that writes the job's samples to the file beside the plan, and goes on with an interrupted
/// sweep of the same job unless `fresh`. The job must outlive it. Throws as RecordingMeter does.
std::unique_ptr<RecordingMeter> make_recorder(const TuningJob& job, const std::filesystem::path& plan,
                                              bool fresh);

/// Sweeps and returns the plan. `recorder` may be null. `interrupt` is asked often for the signal that shall
/// end the sweep, 0 for none. With for_deepspeed two fifths of the budget go to the plan, as much to the free
/// choice, and the rest compares the two.
/// Throws Error(runtime_error) if it is interrupted before anything was measured, and what the meter throws.
Plan tune(TuningJob& job, const TuningRequest& request, RecordingMeter* recorder,
          const std::function<int()>& interrupt, const std::function<void(const SweepProgress&)>& progress);

}  // namespace zf
