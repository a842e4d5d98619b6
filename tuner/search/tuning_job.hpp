// What is tuned: turns the user's request into a job on a machine, real or simulated, ready to be measured.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/state_format.hpp"
#include "homes/rank_homes.hpp"
#include "measure/sample_file.hpp"
#include "plan/workload.hpp"
#include "search/sweep.hpp"
#include "simulate/simulated_model.hpp"

namespace zf {

/// The user's request.
struct TuningRequest {
  /// If `params` is 0, the model is as large as what is measured. If `ranks` is 0, the launcher's variables
  /// or the GPUs give the number.
  Workload workload;
  bool has_workload_file = false;  ///< the training side is that of the file, even if the file has none
  // Options beside the workload; the rest is the workload's own, or that of the simulated machine.
  std::optional<int> ranks = {};
  GpuShare gpus = {};
  std::optional<Mode> mode = {};
  std::optional<int> update_interval = {};
  std::optional<Framework> framework = {};
  StateFormat state_format = StateFormat::fp32;  ///< of the step that is measured
  SweepLimits limits;
  bool for_deepspeed = false;
  /// The file of the plan, beside which the samples are kept; empty: it goes to standard output, and they are
  /// not.
  std::filesystem::path plan = {};
  bool fresh = false;  ///< start a new sweep, whatever samples an interrupted one left
};

/// Returns the workload of the file, else that of a small model with `params` parameters (0: as many as are
/// measured). Precondition: at most one of them is given.
Workload requested_workload(const std::optional<Workload>& of_file, std::optional<std::uint64_t> params);

/// A job on a machine, real or simulated, ready to be measured.
struct TuningJob {
  Machine machine;
  Workload workload;
  std::string ranks_note;  ///< rank_count_note(); empty on a simulated machine
  RankGpus gpus;
  RankHomes placed;              ///< the homes that are measured
  std::vector<Home> free_homes;  ///< the homes of the free choice; those of `placed` unless for_deepspeed
  std::unique_ptr<SimulatedModel> model;  ///< what `meter` measures if the machine is simulated
  std::unique_ptr<Meter> meter;
  std::vector<std::string> warnings;
};

/// Returns the job on the machine that this process runs on. Throws Error(usage) if `machine` is another
/// machine or if a plan cannot have the workload, and as rank_homes() does.
TuningJob job_on_this_machine(Machine machine, const TuningRequest& request);

/// Returns the job on the simulated machine of a file. The request's workload replaces the machine's own if
/// it has parameters. Throws Error(usage) if a plan cannot have the workload, and as simulated_job() does.
TuningJob job_on_simulated_machine(const std::filesystem::path& file, const TuningRequest& request);

/// Returns a meter that writes the job's samples to the file beside the plan, and goes on with an interrupted
/// sweep of the same job unless a fresh one is wanted; null if no samples are kept. The job must outlive it.
/// Throws as RecordingMeter does.
std::unique_ptr<RecordingMeter> make_recorder(const TuningJob& job, const TuningRequest& request);

}  // namespace zf
