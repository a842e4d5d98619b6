#include "machine/probe.hpp"

#include <unistd.h>

#include "commands/commands.hpp"
#include "commands/shared_arguments.hpp"
#include "commands/terminal.hpp"
#include "os/standard_streams.hpp"

namespace zf {
namespace {

CommandSpec probe_spec() {
  return {"probe", "probe [--format text|json] [options]",
          "Shows the machine, which part of it this process may use, and why it may not use the rest.",
          with_machine_options(
              {ranks_option(), gpus_per_rank_option(), ranks_per_gpu_option(), format_option()})};
}

Exit probe_run(const Arguments& arguments) {
  const Format format = format_argument(arguments);
  const Probe probe =
      probe_of(read_machine_and_ask_nvml(source_for_planning(arguments)), Environment::of_this_process(),
               ranks_argument(arguments), gpu_share_argument(arguments));
  print_stdout("{}",
               format == Format::json ? probe_json(probe) : probe_text(probe, list_columns(STDOUT_FILENO)));
  return Exit::done;
}

}  // namespace

Command probe_command() { return {probe_spec(), probe_run}; }

}  // namespace zf
