// The commands of zf-tune. Each is its options and the function that runs it.
#pragma once

#include <functional>
#include <vector>

#include "base/error.hpp"
#include "commands/cli.hpp"

namespace zf {

struct Command {
  CommandSpec spec;
  std::function<Exit(const Arguments&)> run;  ///< returns the exit code; throws Error, which main() prints
};

Command tune_command();
Command probe_command();
Command plan_command();
Command fit_command();
Command explain_command();
Command check_command();
Command exec_command();
Command trial_command();
Command record_command();
Command export_command();
Command doctor_command();
Command verify_command();
Command bench_command();
Command publish_command();
Command where_command();
Command survey_command();
Command kept_command();

}  // namespace zf
