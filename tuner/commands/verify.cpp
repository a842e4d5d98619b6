#include "tuner/verify.hpp"

#include <fmt/core.h>

#include <filesystem>
#include <limits>

#include "base/error.hpp"
#include "plan/plan_json.hpp"
#include "tuner/commands/commands.hpp"
#include "tuner/commands/shared_arguments.hpp"

namespace zf {
namespace {

CommandSpec spec() {
  return {"verify",
          "verify --pid PID|--job [options] [PLAN]",
          "Holds a running job against its plan: where every thread may run and where memory lies; exit 0, "
          "or 3 with "
          "every drift named.",
          {
              {"pid", 'p', "PID",
               "this process and its descendants (the plan: by default what its ZF_PLAN names)"},
              {"job", 'j', "",
               "every process of this node that runs under the plan (default: $ZF_PLAN, else plan.json); "
               "inside a "
               "Slurm job, that job's alone"},
              {"rank", 'r', "N",
               "with --pid: the local rank of processes that zf-tune exec did not start (e.g. 0)"},
              format_option(),
          },
          1};
}

struct Question {
  std::filesystem::path plan;
  std::vector<JobProcess> job;
};

Question about_pid(const Arguments& arguments, const SysRoot& sysroot, int pid) {
  if (!read_process(sysroot, pid)) {
    throw Error(Exit::usage, fmt::format("zf-tune verify: --pid {}: there is no such process", pid));
  }
  const std::string its_plan =
      environment_of(sysroot, pid).value_or(Environment()).get("ZF_PLAN").value_or("plan.json");
  Question question{arguments.positionals.empty() ? its_plan : arguments.positionals.front(),
                    processes_below(sysroot, pid, arguments.integer("rank", 0, 65535))};
  if (question.job.empty()) {
    throw Error(Exit::usage,
                fmt::format("zf-tune verify: --pid {}: zf-tune exec started neither it nor a child", pid),
                "give its --rank and the plan, or the trainer's own PID");
  }
  return question;
}

Question about_job(const Arguments& arguments, const SysRoot& sysroot) {
  const Environment environment = Environment::of_this_process();
  const std::string mine = environment.get("ZF_PLAN").value_or("plan.json");
  Question question{
      std::filesystem::absolute(arguments.positionals.empty() ? mine : arguments.positionals.front()), {}};
  question.job = processes_under(sysroot, question.plan, environment);
  if (question.job.empty()) {
    throw Error(Exit::runtime_error,
                fmt::format("zf-tune verify: --job: no process here runs under {}", question.plan.string()),
                "start the job with zf-tune exec, and look as the same user");
  }
  return question;
}

Exit run(const Arguments& arguments) {
  const Format format = format_argument(arguments);
  const auto pid = arguments.integer("pid", 1, std::numeric_limits<int>::max());
  if (pid.has_value() == arguments.has("job")) {
    throw Error(Exit::usage, "zf-tune verify: which job?", "give either --pid PID or --job");
  }
  const SysRoot sysroot;
  const Question question = pid ? about_pid(arguments, sysroot, *pid) : about_job(arguments, sysroot);
  const auto drifts = drift_of(load_plan(question.plan), question.job);
  fmt::print("{}", format == Format::json ? verification_json(question.job, drifts)
                                          : verification_text(question.job, drifts));
  return drifts.empty() ? Exit::done : Exit::stale_plan;
}

}  // namespace

Command verify_command() { return {spec(), run}; }

}  // namespace zf
