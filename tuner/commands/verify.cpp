#include "inspect/verify.hpp"

#include <unistd.h>

#include <filesystem>
#include <limits>
#include <optional>
#include <set>
#include <vector>

#include "base/error.hpp"
#include "base/text.hpp"
#include "commands/commands.hpp"
#include "commands/shared_arguments.hpp"
#include "commands/terminal.hpp"
#include "os/standard_streams.hpp"
#include "plan/plan_json.hpp"
#include "planning/plan_differences.hpp"
#include "text/wrap.hpp"

namespace zf {
namespace {

CommandSpec spec() {
  return {
      "verify",
      "verify --pid PID|--job [options] [PLAN]",
      "Compares a running job with its plan: where each thread may run, whether all of its home is used, and "
      "where its memory lies. Exits with 0 if all is as planned; "
      "otherwise names every drift and exits with 3.",
      {
          {"pid", 'p', "PID", "check this process and its descendants (e.g. 4711)"},
          {"job", 'j', "",
           "check every process on this node that zf-tune exec started; inside a Slurm job, only those of "
           "that job; with PLAN, only those that run under that file"},
          {"rank", 'r', "N", "with --pid: local rank of processes that zf-tune exec did not start (e.g. 0)"},
          format_option(),
      },
      1};
}

/// Prints a note for each plan of the former format that the job is compared with. A plan that cannot be read
/// is not this function's matter.
void note_former_formats(const std::vector<JobProcess>& job,
                         const std::optional<std::filesystem::path>& named) {
  std::set<std::filesystem::path> paths;
  if (named) paths.insert(*named);
  for (const JobProcess& member : job) {
    if (!named && !member.binding && !member.plan.empty()) paths.insert(member.plan);
  }
  for (const std::filesystem::path& path : paths) {
    try {
      if (const auto note = former_format_note(load_plan(path), path)) print_stderr("{}\n", one_line(*note));
    } catch (const Error&) {
    }
  }
}

Exit run(const Arguments& arguments) {
  const Format format = format_argument(arguments);
  const auto pid = arguments.integer("pid", 1, std::numeric_limits<int>::max());
  if (!pid && !arguments.has("job"))
    throw Error(Exit::usage, "zf-tune verify: no job was named", "give --pid PID or --job");
  if (pid && arguments.has("job"))
    throw Error(Exit::usage, "zf-tune verify: --pid cannot be used with --job", "leave out one of them");
  std::optional<std::filesystem::path> plan;
  if (!arguments.positionals.empty()) plan = std::filesystem::absolute(arguments.positionals.front());
  const SysRoot sysroot;
  const auto job =
      pid ? find_descendants(sysroot, *pid, arguments.integer("rank", 0, 65535)) : find_job(sysroot, plan);
  const auto drifts = verify_job(job, plan);
  note_former_formats(job, plan);
  print_stdout("{}", format == Format::json
                         ? verification_json(job, drifts)
                         : wrapped(verification_text(job, drifts), list_columns(STDOUT_FILENO)));
  return drifts.empty() ? Exit::done : Exit::stale_plan;
}

}  // namespace

Command verify_command() { return {spec(), run}; }

}  // namespace zf
