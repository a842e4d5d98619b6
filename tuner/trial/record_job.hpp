// Does the work of `zf-tune record`: runs the user's job once, with a recorder in each of its Python
// processes, and makes a workload of what the recorders wrote.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "children/attached_command.hpp"
#include "ipc/child.hpp"
#include "machine/machine.hpp"
#include "measure/workload_file.hpp"

namespace zf {

struct RecordRequest {
  std::vector<std::string> command;
  int updates = 20;  ///< optimizer steps to record, per rank
  CommandOutput output = CommandOutput::to_stdout;
  bool stop = false;  ///< end the command with SIGTERM when all ranks have seen enough
};

struct JobRecord {
  AttachedEnd end;                   ///< of the command
  bool stopped = false;              ///< we ended the command, because enough was recorded
  std::optional<WorkloadFile> file;  ///< absent: no rank recorded anything
  std::string why;  ///< if it is absent: what the recorders said, or what they may have missed
};

/// Runs the command to its end and returns the workload that its ranks make together. The command has our
/// standard streams, or our stderr in the place of stdout. Throws Error(runtime_error) if the command cannot
/// be watched, and as joined_ranks() does.
JobRecord record_job(const RecordRequest& request);

/// Returns how long the job's own optimizer step takes, divided by ours over as many parameters, on as many
/// threads, with all ranks at once. Runs ours now, for some seconds. Returns nothing if no step was seen, if
/// it was ours, or if stop() returned true meanwhile. Throws Error if the machine has no room for the ranks.
std::optional<double> measured_step_factor(const WorkloadFile& file, const Machine& machine,
                                           const std::function<bool()>& stop);

}  // namespace zf
