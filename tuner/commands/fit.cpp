#include "fit/fit_report.hpp"

#include <unistd.h>

#include "base/error.hpp"
#include "base/format.hpp"
#include "base/text.hpp"
#include "commands/commands.hpp"
#include "commands/fit_job_arguments.hpp"
#include "commands/job_warnings.hpp"
#include "commands/shared_arguments.hpp"
#include "os/environment.hpp"
#include "os/standard_streams.hpp"
#include "text/units.hpp"

namespace zf {
namespace {

CommandSpec fit_spec() {
  std::vector<OptionSpec> options = fit_job_options();
  options.push_back({"memory", 0, "SIZE",
                     "host memory that the job may use; other limits are then not looked at (default: the "
                     "smallest limit of "
                     "this node; e.g. 512GiB, or 64GB for 64 x 10^9 bytes)"});
  options.push_back(format_option());
  options.push_back(wide_option());
  return {"fit", "fit --params N | --model DIR [options]",
          "Says whether a training job fits the host memory of a node: what each phase needs, what would "
          "help, and "
          "how large a model may be. Measures nothing and starts nothing. Ends with 0 if the job fits, and "
          "with 4 if "
          "it does not.",
          with_machine_options(std::move(options))};
}

NodeLimits limits_of_node(const Arguments& arguments, const MachineSource& source, const Machine& machine) {
  if (const auto memory = arguments.text("memory")) {
    NodeLimits limits;
    limits.capacity = {parse_size(*memory, "zf-tune fit: --memory"), "--memory"};
    return limits;
  }
  return limits_here(machine, source);
}

Exit fit_run(const Arguments& arguments) {
  const Format format = format_argument(arguments);
  const MachineSource source = source_for_planning(arguments);
  const ModelSize model = fit_model_argument(arguments);
  const Machine machine = read_machine_and_ask_nvml(source);
  const FitArguments fit = fit_job_of(arguments, model, machine, Environment::of_this_process());
  FitReport report = fit_report(fit.job, limits_of_node(arguments, source, machine));
  report.assumed = fit.assumed;
  print_stdout("{}", format == Format::json ? fit_json(report)
                                            : fit_text(report, page_width(arguments, STDOUT_FILENO)));
  return report.verdict.fits ? Exit::done : Exit::infeasible;
}

}  // namespace

Command fit_command() { return {fit_spec(), fit_run}; }

}  // namespace zf
