#include "launch/exec.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "base/cpu_list.hpp"
#include "base/error.hpp"
#include "os/affinity.hpp"
#include "os/memory.hpp"
#include "plan/plan_check.hpp"
#include "text/command_line.hpp"

namespace zf {
namespace {

/// A thread count that the user has set stays, and the user is told.
void keep_the_users(Launch& launch, const Environment& environment, const std::string& name) {
  const auto users = environment.get(name);
  if (!users) return;
  const std::string& plans = launch.set.at(name);
  if (*users != plans) {
    launch.notes.push_back(fmt::format("{}={} is yours and stays; the plan has {}", name, *users, plans));
  }
  launch.set.erase(name);
}

CpuSet cpus_of(const RankBinding& binding) { return binding.training.cpus | binding.optimizer.cpus; }

bool is_allowed(const RankBinding& binding, const Allowed& allowed) {
  return allowed.cpus.contains(cpus_of(binding)) && allowed.mems.contains(binding.optimizer.mems);
}

void check_allowed(const RankBinding& binding, const Allowed& allowed) {
  if (is_allowed(binding, allowed)) return;
  const CpuSet lost = cpus_of(binding) - allowed.cpus;
  const std::string difference =
      lost.empty()
          ? fmt::format("the plan's memory nodes {} of rank {} are not allowed here (allowed: {})",
                        print(binding.optimizer.mems - allowed.mems), binding.rank, print(allowed.mems))
          : fmt::format("the plan's CPUs {} of rank {} are not allowed here (allowed: {})", print(lost),
                        binding.rank, print(allowed.cpus));
  throw Error(Exit::stale_plan, difference, "make a plan here with zf-tune, or start anyway with --force");
}

bool is_throttled(const Plan& plan, const Allowed& allowed) {
  return allowed.cpu_quota && allowed.cpu_quota != plan.allocation.cpu_quota &&
         *allowed.cpu_quota < static_cast<double>(threads_at_once(plan));
}

}  // namespace

EnvNumber rank_of(const Plan& plan, const LaunchRequest& request, const Environment& environment) {
  if (request.rank) return {*request.rank, "--rank"};
  if (const auto found = local_rank(environment)) return *found;
  if (plan.ranks.size() == 1) return {0, "the plan's only rank"};
  throw Error(Exit::usage, fmt::format("which of the plan's {} ranks is this?", plan.ranks.size()),
              "give --rank N, or start under torchrun, srun or mpirun, which set LOCAL_RANK or the like");
}

int rank_count_of(const Plan& plan, const LaunchRequest& request, const Environment& environment) {
  if (request.ranks) return *request.ranks;
  const auto launched = request.rank ? std::nullopt : launched_ranks(environment);
  return launched ? launched->value : static_cast<int>(plan.ranks.size());
}

bool holds(const Plan& plan, int rank, int ranks, const Allowed& allowed) {
  if (ranks != static_cast<int>(plan.ranks.size()) || is_throttled(plan, allowed)) return false;
  const auto allows = [&](const RankBinding& binding) { return is_allowed(binding, allowed); };
  if (std::all_of(plan.ranks.begin(), plan.ranks.end(), allows)) return true;
  return std::all_of(plan.ranks.begin(), plan.ranks.end(), [&](const RankBinding& binding) {
    return binding.rank == rank ? allows(binding) : !allowed.cpus.intersects(cpus_of(binding));
  });
}

std::map<std::string, std::string> variables_of(const RankBinding& binding,
                                                const std::filesystem::path& plan_path) {
  const std::string threads = std::to_string(binding.training.threads);
  return {{"ZF_PLAN", plan_path.string()},
          {"ZF_RANK", std::to_string(binding.rank)},
          {"ZF_OPTIMIZER_CPUS", print(binding.optimizer.cpus)},
          {"OMP_NUM_THREADS", threads},
          {"MKL_NUM_THREADS", threads}};
}

Launch launch_of(const Plan& plan, const LaunchRequest& request, const Allowed& allowed,
                 const Environment& environment) {
  const EnvNumber rank = rank_of(plan, request, environment);
  const RankBinding& binding = binding_of(plan, rank.value);

  Launch launch;
  launch.rank = rank.value;
  launch.rank_source = rank.variable;
  launch.cpus = binding.training.cpus;
  launch.mems = binding.optimizer.mems;
  check_allowed(binding, allowed);
  launch.set = variables_of(binding, request.plan_path);
  launch.set["ZF_RANK_FROM"] = launchers_rank(environment);
  for (const char* name : {"OMP_NUM_THREADS", "MKL_NUM_THREADS"}) keep_the_users(launch, environment, name);
  return launch;
}

void apply(Launch& launch, bool force) {
  if (!launch.cpus.empty()) {
    try {
      bind_this_thread(launch.cpus);
    } catch (const Error& error) {
      if (!force)
        throw Error(error.exit(), error.what(), "nothing was started; --force starts it all the same");
      launch.notes.push_back(fmt::format("{}; going on", error.what()));
    }
  }
  if (!launch.mems.empty()) {
    if (const PolicyRefusal refusal = set_thread_memory_policy(MemoryPolicy::preferred, launch.mems)) {
      launch.notes.push_back(fmt::format("memory policy refused ({}): first touch decides", *refusal));
    }
  }
  for (const auto& [name, value] : launch.set) {
    checked(::setenv(name.c_str(), value.c_str(), 1), fmt::format("setenv {}", name));
  }
}

void become(const std::vector<std::string>& command) {
  std::vector<char*> argv;
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  ::execvp(argv[0], argv.data());
  const int error = errno;
  throw Error(error == ENOENT ? Exit::not_found : Exit::cannot_execute,
              fmt::format("{}: {}", command.front(), errno_text(error)));
}

std::string describe(const Launch& launch, const std::vector<std::string>& command) {
  std::string text;
  if (!launch.rank_source.empty())
    text = fmt::format("# rank {} (from {})\n", launch.rank, launch.rank_source);
  for (const std::string& note : launch.notes) text += fmt::format("# {}\n", note);
  for (const auto& [name, value] : launch.set)
    text += fmt::format("export {}={}\n", name, shell_quoted(value));
  if (!launch.mems.empty()) text += fmt::format("# memory: preferred on nodes {}\n", print(launch.mems));
  text += "exec";
  if (!launch.cpus.empty()) text += fmt::format(" taskset -c {}", print(launch.cpus));
  for (const std::string& word : command) text += fmt::format(" {}", shell_quoted(word));
  return text + "\n";
}

}  // namespace zf
