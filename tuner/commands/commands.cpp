#include "commands/commands.hpp"

namespace zf {

std::vector<Command> all_commands() {
  return {
      tune_command(),   probe_command(), plan_command(),   explain_command(),
      check_command(),  exec_command(),  export_command(), doctor_command(),
      verify_command(), trial_command(), bench_command(),  publish_command(),
  };
}

}  // namespace zf
