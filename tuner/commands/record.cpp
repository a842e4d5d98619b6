#include "trial/record_job.hpp"

#include <csignal>
#include <utility>

#include "base/error.hpp"
#include "base/exit_after_signal.hpp"
#include "base/format.hpp"
#include "base/text.hpp"
#include "commands/commands.hpp"
#include "commands/interrupt.hpp"
#include "commands/output.hpp"
#include "commands/results.hpp"
#include "os/environment.hpp"
#include "os/exec.hpp"
#include "os/standard_streams.hpp"
#include "report/recorded_words.hpp"
#include "text/units.hpp"

namespace zf {
namespace {

CommandSpec record_spec() {
  CommandSpec spec{
      "record",
      "record [-o FILE] [options] [--] COMMAND [ARG ...]",
      "Runs COMMAND, a training job with PyTorch, as it is, and writes a workload file that describes it: "
      "zf-tune tune -w FILE then plans for this job. Ends with the status of COMMAND if COMMAND fails, and "
      "with 1 if it does not train. A COMMAND that Ctrl-C ends after N steps was recorded; the status is "
      "then "
      "130.",
      {
          {"output", 'o', "FILE",
           "file to write, - for standard output; what COMMAND prints there then goes to standard error "
           "(default: workload.json)"},
          {"updates", 'u', "N",
           "number of optimizer steps to record, per rank, at least 4; the recorder is idle after them "
           "(default: 20; e.g. 50)"},
          {"stop", 0, "", "end COMMAND with SIGTERM when enough was recorded (default: it runs to its end)"},
          {"quiet", 'q', "", "print only errors"},
      }};
  spec.wraps_command = true;
  return spec;
}

/// Returns what a shell would give as the status of the command.
Exit exit_of(const ExitStatus& status) {
  if (status.signal) return exit_after_signal(*status.signal);
  return static_cast<Exit>(status.code.value_or(static_cast<int>(Exit::runtime_error)));
}

/// Returns SIGINT, SIGTERM or SIGHUP if it came to this process, or if the command says that it came there;
/// else 0. The SIGTERM of --stop does not count.
int interrupt_of(const JobRecord& record) {
  if (record.end.interrupt != 0 || record.stopped) return record.end.interrupt;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    if (exit_of(record.end.status) == exit_after_signal(signal)) return signal;
  }
  return 0;
}

/// Measures how long the job's optimizer step takes beside ours. Returns "", or why the factor stays an
/// estimate. A signal ends the measurement.
std::string measure_step_factor(WorkloadFile& file, const InterruptWatch& interrupt) {
  try {
    file.workload.step_factor =
        measured_step_factor(file, read_machine({}), [&] { return interrupt.signal() != 0; });
  } catch (const Error& error) {
    return error.what();
  }
  if (file.workload.step_factor) return "";
  if (interrupt.signal() != 0) return "a signal ended the measurement of ours";
  return "its optimizer step was not seen";
}

/// Writes the workload file, and completes it with the step factor, which takes some seconds to measure. The
/// file is there before that: whatever ends this process then, the recording is not lost.
void write_and_complete(const OutputFile& output, WorkloadFile& file, bool quiet,
                        const InterruptWatch& interrupt) {
  if (file.workload.framework == Framework::native) return output.write(print_workload_file(file));
  WorkloadFile estimated = file;
  estimated.estimates.emplace_back("step_factor");
  if (!output.is_stdout()) output.write(print_workload_file(estimated));
  const std::string why = measure_step_factor(file, interrupt);
  if (!why.empty()) {
    file = std::move(estimated);
    if (!quiet)
      print_stderr("zf-tune record: the job's optimizer step is taken to be as fast as ours: {}\n", why);
  }
  if (why.empty() || output.is_stdout()) output.write(print_workload_file(file));
}

Exit record_run(const Arguments& arguments) {
  if (arguments.wrapped.empty()) {
    throw Error(Exit::usage, "zf-tune record: no command given",
                "write it after --, e.g. zf-tune record -- python3 train.py");
  }
  const OutputFile output(arguments.text("output").value_or("workload.json"), "-o");
  if (!output.is_stdout()) need_no_plan(output.path(), "-o");
  RecordRequest request;
  request.command = arguments.wrapped;
  request.updates = arguments.integer("updates", 4, 1'000'000).value_or(request.updates);
  request.stop = arguments.has("stop");
  if (output.is_stdout()) request.output = CommandOutput::to_stderr;
  if (switched_off(Environment::of_this_process())) exec_or_throw(request.command);

  JobRecord record = record_job(request);
  const std::string how = describe(record.end.status);
  const Exit interrupted = exit_after_signal(interrupt_of(record));
  const Exit exit = interrupted != Exit::done || record.stopped ? interrupted : exit_of(record.end.status);
  if (exit != Exit::done && (interrupted == Exit::done || !record.file)) {
    print_stderr("zf-tune record: the command {}: no workload was written\n", how);
    return exit;
  }
  if (!record.file) {
    throw Error(Exit::runtime_error, format_text("zf-tune record: no workload was written: {}", record.why));
  }
  const bool quiet = arguments.has("quiet");
  if (interrupted != Exit::done && !quiet)
    print_stderr("zf-tune record: the command {}, after enough was recorded\n", how);
  const InterruptWatch interrupt;
  write_and_complete(output, *record.file, quiet, interrupt);
  if (!quiet) {
    if (!output.is_stdout()) print_stderr("wrote {}\n", one_line(output.name()));
    Results(output.is_stdout()).print_wrapped(recorded_in_words(*record.file), arguments);
  }
  return exit != Exit::done ? exit : exit_after_signal(interrupt.signal());
}

}  // namespace

Command record_command() { return {record_spec(), record_run}; }

}  // namespace zf
