#include "launch/exec.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "base/cpu_list.hpp"
#include "base/error.hpp"
#include "base/format.hpp"
#include "base/text.hpp"
#include "launchers/local_rank.hpp"
#include "os/affinity.hpp"
#include "os/exec_command.hpp"
#include "os/memory.hpp"
#include "plan/plan_check.hpp"
#include "text/command_line.hpp"
#include "text/units.hpp"

namespace zf {
namespace {

/// Returns the thread count that an outer zf-tune exec has set, perhaps for other CPUs; empty if there is
/// none.
std::string set_by_outer_exec(const Environment& environment) {
  const auto line = environment.get(kBindingVariable);
  if (!line) return {};
  try {
    const ProcessBinding outer = parse_binding(*line);
    return std::to_string(process_cpus(outer.rank, outer.framework).threads);
  } catch (const Error&) {
    return {};  // of another version
  }
}

/// Keeps a thread count that the user has set, and adds a note if it differs from the plan's.
void keep_user_setting(Launch& launch, const Environment& environment, const std::string& name) {
  const auto by_user = environment.get(name);
  if (!by_user) return;
  const std::string& by_plan = launch.set.at(name);
  if (*by_user == set_by_outer_exec(environment)) return;
  if (*by_user != by_plan) {
    launch.notes.push_back(
        format_text("{}={} is set already and is kept; the plan has {}", name, *by_user, by_plan));
  }
  launch.set.erase(name);
}

bool is_allowed(const RankBinding& binding, const Allowed& allowed) {
  return allowed.cpus.contains(binding.home.cpus) && allowed.mems.contains(binding.optimizer.mems);
}

void check_allowed(const RankBinding& binding, const Allowed& allowed) {
  if (is_allowed(binding, allowed)) return;
  const CpuSet lost = binding.home.cpus - allowed.cpus;
  const NodeSet lost_mems = binding.optimizer.mems - allowed.mems;
  const std::string difference =
      lost.empty()
          ? format_text("the plan's memory {} of rank {} {} not allowed here (allowed: {})",
                        print_nodes(lost_mems), binding.rank, lost_mems.size() == 1 ? "is" : "are",
                        print(allowed.mems))
          : format_text("the plan's {} of rank {} {} not allowed here (allowed: {})", print_cpus(lost),
                        binding.rank, lost.size() == 1 ? "is" : "are", print(allowed.cpus));
  throw Error(Exit::stale_plan, difference, "make a plan here with zf-tune, or start anyway with --force");
}

/// Returns true if a CPU quota that is not the plan's covers fewer CPUs than the plan runs threads.
bool has_small_new_quota(const Plan& plan, const Allowed& allowed) {
  return allowed.cpu_quota && allowed.cpu_quota != plan.allocation.cpu_quota &&
         *allowed.cpu_quota < static_cast<double>(threads_at_once(plan));
}

}  // namespace

EnvNumber resolve_rank(const Plan& plan, const LaunchRequest& request, const Environment& environment) {
  if (request.rank) return {*request.rank, "--rank"};
  if (const auto found = local_rank(environment)) return *found;
  if (plan.ranks.size() == 1) return {0, "the plan's only rank"};
  throw Error(
      Exit::usage,
      format_text("no variable says which of the plan's {} ranks this process is", plan.ranks.size()),
      "give --rank N, or let torchrun --no-python, srun or mpirun start zf-tune exec once per rank: they set "
      "LOCAL_RANK or a similar variable, and a batch script of Slurm is no rank");
}

int resolve_rank_count(const Plan& plan, const LaunchRequest& request, const Environment& environment) {
  if (request.ranks) return *request.ranks;
  const auto launched = request.rank ? std::nullopt : launched_ranks(environment);
  return launched ? launched->value : static_cast<int>(plan.ranks.size());
}

Fit fit_of(const Plan& plan, int ranks, const Allowed& seen, const Allowed& of_job, const CpuSet& isolated) {
  const bool as_many = ranks == static_cast<int>(plan.ranks.size()) && !has_small_new_quota(plan, seen);
  const auto is_seen = [&](const RankBinding& binding) { return is_allowed(binding, seen); };
  if (as_many && std::all_of(plan.ranks.begin(), plan.ranks.end(), is_seen)) return Fit::as_planned;
  if (ranks == 1) return Fit::new_homes;
  if (seen.cpus != of_job.cpus - (isolated - seen.cpus)) return Fit::ambiguous;
  if (!as_many) return Fit::new_homes;
  const auto touched = std::count_if(plan.ranks.begin(), plan.ranks.end(), [&](const RankBinding& binding) {
    return seen.cpus.intersects(binding.home.cpus);
  });
  return touched == 0 || touched == ranks ? Fit::new_homes : Fit::ambiguous;
}

std::map<std::string, std::string> variables_of(const ProcessBinding& binding,
                                                const std::filesystem::path& plan_path) {
  const std::string threads = std::to_string(process_cpus(binding.rank, binding.framework).threads);
  return {{"ZF_PLAN", plan_path.string()},
          {"ZF_RANK", std::to_string(binding.rank.rank)},
          {"ZF_OPTIMIZER_CPUS", print(binding.rank.optimizer.cpus)},
          {kBindingVariable, print_binding(binding)},
          {"OMP_NUM_THREADS", threads},
          {"MKL_NUM_THREADS", threads}};
}

Launch launch_of(const ProcessBinding& fitted, const EnvNumber& rank, const LaunchRequest& request,
                 const Allowed& allowed, const Environment& environment) {
  const RankBinding& binding = fitted.rank;
  check_allowed(binding, allowed);
  const ProcessCpus process = process_cpus(binding, fitted.framework);
  Launch launch;
  launch.rank = rank.value;
  launch.rank_source = rank.variable;
  launch.cpus = process.cpus;
  launch.binding = fitted;
  launch.binding->started_on = process.started_on;
  launch.mems = binding.optimizer.mems;
  launch.set = variables_of(*launch.binding, request.plan_path);
  launch.set["ZF_RANK_FROM"] = launchers_rank(environment);
  if (process.started_on == StartedOn::training) {
    launch.notes.push_back(
        format_text("{} {} kept for the optimizer process of the runtime (framework native)",
                    print_cpus(binding.optimizer.cpus), binding.optimizer.cpus.size() == 1 ? "is" : "are"));
  }
  for (const char* name : {"OMP_NUM_THREADS", "MKL_NUM_THREADS"})
    keep_user_setting(launch, environment, name);
  return launch;
}

void apply(Launch& launch, bool force) {
  if (!launch.cpus.empty()) {
    try {
      bind_this_thread(launch.cpus);
    } catch (const Error& error) {
      if (!force)
        throw Error(error.exit(), error.what(),
                    "nothing was started; --force starts the command without this binding");
      launch.notes.push_back(format_text("{}; going on without this binding", error.what()));
      if (launch.binding) {
        launch.binding->started_on = StartedOn::nothing;
        launch.set[kBindingVariable] = print_binding(*launch.binding);
      }
    }
  }
  if (!launch.mems.empty()) {
    if (const PolicyRefusal refusal = set_thread_memory_policy(MemoryPolicy::preferred, launch.mems)) {
      launch.notes.push_back(format_text(
          "the memory policy is not set ({}): a page goes to the node of the CPU that touches it first",
          *refusal));
    }
  }
  for (const auto& [name, value] : launch.set) {
    checked(::setenv(name.c_str(), value.c_str(), 1), format_text("setenv {}", name));
  }
}

void exec_or_throw(const std::vector<std::string>& command) {
  const int error = exec_command(command);
  throw Error(error == ENOENT ? Exit::not_found : Exit::cannot_execute,
              format_text("{}: {}", command.front(), errno_text(error)));
}

std::string describe(const Launch& launch, const std::vector<std::string>& command) {
  std::string text;
  if (!launch.rank_source.empty())
    text = format_text("# rank {} (from {})\n", launch.rank, launch.rank_source);
  for (const std::string& note : launch.notes) text += format_text("# {}\n", one_line(note));
  for (const auto& [name, value] : launch.set)
    text += format_text("export {}={}\n", name, shell_quoted(value));
  if (!launch.mems.empty()) text += format_text("# memory: preferred on {}\n", print_nodes(launch.mems));
  text += "exec";
  if (!launch.cpus.empty()) text += format_text(" taskset -c {}", print(launch.cpus));
  for (const std::string& word : command) text += format_text(" {}", shell_quoted(word));
  return text + "\n";
}

}  // namespace zf
