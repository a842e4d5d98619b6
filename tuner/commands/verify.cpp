#include "inspect/verify.hpp"

#include <fmt/core.h>

#include <filesystem>
#include <limits>
#include <optional>
#include <vector>

#include "base/error.hpp"
#include "commands/commands.hpp"
#include "commands/shared_arguments.hpp"
#include "plan/plan_json.hpp"

namespace zf {
namespace {

CommandSpec spec() {
  return {
      "verify",
      "verify --pid PID|--job [options] [PLAN]",
      "Compares a running job with its plan: where each thread may run and where its memory lies. Exits with "
      "0 if all is as planned; otherwise names every drift and exits with 3.",
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

std::vector<JobProcess> below(const SysRoot& sysroot, int pid, std::optional<int> rank) {
  if (!read_process(sysroot, pid)) {
    throw Error(Exit::usage, fmt::format("zf-tune verify: --pid {}: there is no such process", pid));
  }
  auto job = processes_below(sysroot, pid, rank);
  if (!job.empty()) return job;
  if (!environment_of(sysroot, pid)) {
    throw Error(Exit::runtime_error,
                fmt::format("zf-tune verify: --pid {0}: /proc/{0}/environ cannot be read: it may be another "
                            "user's",
                            pid),
                "look as the user whose job it is, or as root");
  }
  throw Error(Exit::usage,
              fmt::format("zf-tune verify: --pid {}: zf-tune exec started neither it nor a child", pid),
              "give its --rank and the plan, or the trainer's own PID");
}

std::vector<JobProcess> whole_job(const SysRoot& sysroot, const std::optional<std::filesystem::path>& plan) {
  const auto slurm_job = Environment::of_this_process().get("SLURM_JOB_ID");
  auto job = processes_of_job(sysroot, slurm_job, plan);
  if (!job.empty()) return job;
  throw Error(Exit::runtime_error,
              fmt::format("zf-tune verify: --job: zf-tune exec has started nothing here{}{}",
                          slurm_job ? " in job " + *slurm_job : "", plan ? " under " + plan->string() : ""),
              "start the job with zf-tune exec, and look as the same user");
}

/// Each process by `plan`, or by its own: then a plan that is gone or changed is drift as well.
std::vector<Drift> drift_in(const std::vector<JobProcess>& job,
                            const std::optional<std::filesystem::path>& plan) {
  if (plan) return drift_of(load_plan(*plan), job);
  std::vector<Drift> drifts;
  for (const JobProcess& member : job) {
    try {
      const std::string own = member.plan.empty() ? "plan.json" : member.plan.string();
      for (Drift& drift : drift_of(load_plan(own), {member})) drifts.push_back(std::move(drift));
    } catch (const Error& error) {
      drifts.push_back({member.rank, member.process.pid, 0, member.process.name,
                        fmt::format("cannot be held against its plan: {}", error.what())});
    }
  }
  return drifts;
}

Exit run(const Arguments& arguments) {
  const Format format = format_argument(arguments);
  const auto pid = arguments.integer("pid", 1, std::numeric_limits<int>::max());
  if (pid.has_value() == arguments.has("job")) {
    throw Error(Exit::usage, "zf-tune verify: which job?", "give either --pid PID or --job");
  }
  std::optional<std::filesystem::path> plan;
  if (!arguments.positionals.empty()) plan = std::filesystem::absolute(arguments.positionals.front());
  const SysRoot sysroot;
  const auto job = pid ? below(sysroot, *pid, arguments.integer("rank", 0, 65535)) : whole_job(sysroot, plan);
  const auto drifts = drift_in(job, plan);
  fmt::print("{}", format == Format::json ? verification_json(job, drifts) : verification_text(job, drifts));
  return drifts.empty() ? Exit::done : Exit::stale_plan;
}

}  // namespace

Command verify_command() { return {spec(), run}; }

}  // namespace zf
