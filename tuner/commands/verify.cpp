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
#include "commands/watch_threads.hpp"
#include "os/standard_streams.hpp"
#include "plan/plan_json.hpp"
#include "planning/plan_differences.hpp"
#include "text/units.hpp"
#include "text/wrap.hpp"

namespace zf {
namespace {

CommandSpec verify_spec() {
  return {
      "verify",
      "verify --pid PID|--job [--watch TIME] [options] [PLAN]",
      "Compares a running job with its plan: where each thread may run, whether all of its home is used, and "
      "where its memory lies. With --watch it looks on, and says which threads are moved to other CPUs, "
      "and when the CPUs that the job may use change. Exits "
      "with 0 if all is as planned and nothing is moved; otherwise names every drift and exits with 3.",
      {
          plan_option(
              "compare with this plan, also without --plan (default: the plan that each process runs under)"),
          {"pid", 0, "PID", "check this process and its descendants (e.g. 4711)"},
          {"job", 'j', "",
           "check every process on this node that zf-tune exec started; inside a Slurm job, only those of "
           "that job; with a plan, only those that run under that file"},
          {"watch", 0, "TIME",
           "then look for moved threads twice a second for so long; with --pid also where no plan is known "
           "(default: 0s; e.g. 60s)"},
          {"rank", 0, "N", "with --pid: local rank of processes that zf-tune exec did not start (e.g. 0)"},
          format_option(),
      }};
}

/// Returns the processes that are compared with the plan. A process that zf-tune exec did not start has none,
/// but its threads can be watched: then a note says so.
std::vector<JobProcess> find_processes(const SysRoot& sysroot, std::optional<int> pid,
                                       const Arguments& arguments,
                                       const std::optional<std::filesystem::path>& plan) {
  if (!pid) return find_job(sysroot, plan);
  const auto rank = arguments.integer("rank", 0, 65535);
  if (rank || !arguments.has("watch") || !read_process(sysroot, *pid))
    return find_descendants(sysroot, *pid, rank);
  auto job = processes_below(sysroot, *pid, rank);
  if (job.empty()) {
    print_stderr(
        "zf-tune verify: zf-tune exec started neither process {} nor a child, so only moves are looked for\n",
        *pid);
  }
  return job;
}

/// Returns the processes that are watched, with all below them.
std::vector<int> watched_pids(std::optional<int> pid, const std::vector<JobProcess>& job) {
  if (pid) return {*pid};
  std::vector<int> pids;
  for (const JobProcess& member : job) pids.push_back(member.process.pid);
  return pids;
}

Exit verify_run(const Arguments& arguments) {
  const Format format = format_argument(arguments);
  std::optional<Nanoseconds> watch_ns;
  if (const auto time = arguments.text("watch")) watch_ns = parse_duration(*time, "zf-tune verify: --watch");
  const auto pid = arguments.integer("pid", 1, std::numeric_limits<int>::max());
  if (!pid && !arguments.has("job"))
    throw Error(Exit::usage, "zf-tune verify: no job was named", "give --pid PID or --job");
  if (pid && arguments.has("job"))
    throw Error(Exit::usage, "zf-tune verify: --pid cannot be used with --job", "leave out one of them");
  std::optional<std::filesystem::path> plan;
  if (const auto named = arguments.text("plan")) plan = std::filesystem::absolute(*named);
  const SysRoot sysroot;
  const auto job = find_processes(sysroot, pid, arguments, plan);
  const auto drifts = verify_job(job, plan);
  const bool says_json = format == Format::json;
  if (!says_json && !job.empty())
    print_stdout("{}", wrapped(verification_text(job, drifts), list_columns(STDOUT_FILENO)));
  std::optional<WatchedMoves> watched;
  if (watch_ns) watched = watch_threads(watched_pids(pid, job), *watch_ns, !says_json);
  if (says_json) print_stdout("{}", verification_json(job, drifts, watched));
  return drifts.empty() && (!watched || (watched->moves.empty() && watched->changes.empty()))
             ? Exit::done
             : Exit::stale_plan;
}

}  // namespace

Command verify_command() { return {verify_spec(), verify_run}; }

}  // namespace zf
