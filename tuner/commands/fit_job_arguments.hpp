// The options that describe the job of zf-tune fit.
#pragma once

#include <string>
#include <vector>

#include "commands/cli.hpp"
#include "fit/fit_job.hpp"
#include "machine/machine.hpp"
#include "os/environment.hpp"

namespace zf {

std::vector<OptionSpec> fit_job_options();

/// Returns the model that --params or --model names, with --trainable. Throws Error(usage) if both are given,
/// or none.
ModelSize fit_model_argument(const Arguments& arguments);

struct FitArguments {
  FitJob job;
  std::vector<std::string> assumed;  ///< what was chosen because the user did not say it, one sentence each
};

/// Returns the job that the options describe on this machine. Throws Error(usage) if there is no such job.
FitArguments fit_job_of(const Arguments& arguments, const ModelSize& model, const Machine& machine,
                        const Environment& environment);

/// The reserve of a rank: its process without the model, its loaders, and with a GPU the context of CUDA.
std::uint64_t usual_reserve(Device device);

}  // namespace zf
