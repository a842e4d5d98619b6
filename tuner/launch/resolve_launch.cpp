#include "launch/resolve_launch.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <span>
#include <string>
#include <utility>

#include "base/cpu_list.hpp"
#include "base/error.hpp"
#include "base/file_descriptor.hpp"
#include "launch/slurm_masks.hpp"
#include "machine/machine.hpp"
#include "os/file.hpp"
#include "os/machine_identity.hpp"
#include "plan/plan_check.hpp"
#include "plan/plan_json.hpp"
#include "planning/retarget.hpp"

namespace zf {
namespace {

/// Above what shell scripts number by hand.
constexpr int kLowestDescriptor = 100;

/// Returns the path of a file without a name that holds the plan. The file is open in this process and in
/// what this process becomes. The path works for its children as well, for as long as this process lives, and
/// nothing is left to clean up. Throws Error(runtime_error).
std::filesystem::path plan_in_memory(const Plan& plan) {
  const char* const what = "cannot hold the plan in memory";
  const FileDescriptor file(checked(::memfd_create("zf-plan.json", MFD_CLOEXEC | MFD_ALLOW_SEALING), what));
  const std::string text = print_plan(plan);
  if (const int error = write_all_at(file.get(), 0, std::as_bytes(std::span(text))); error != 0)
    throw_errno(error, what);
  checked(::fcntl(file.get(), F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL), what);
  const int kept = checked(::fcntl(file.get(), F_DUPFD, kLowestDescriptor), what);
  // Not /proc/self: for a child that would be its own, and Python's children have no such descriptor.
  return fmt::format("/proc/{}/fd/{}", ::getpid(), kept);
}

std::string in_words(std::size_t ranks) { return fmt::format("{} rank{}", ranks, ranks == 1 ? "" : "s"); }

/// What the launcher could have been told, where it narrowed this process and not the job.
std::string advice(const Allowed& allowed, int ranks) {
  const auto by_mask = [](const Exclusion& e) { return e.reason == ExclusionReason::affinity_mask; };
  const bool masked = std::any_of(allowed.exclusions.begin(), allowed.exclusions.end(), by_mask);
  if (ranks == 1 || !masked) return "";
  return "; if these are this rank's alone, let the launcher bind nothing (srun --cpu-bind=none, mpirun "
         "--bind-to none)";
}

/// What this process could use if it had not been bound: what Slurm's masks are parts of.
Allowed allowed_to_job(const Topology& topology) {
  AllowedInputs inputs = read_allowed_inputs(SysRoot());
  inputs.affinity.reset();
  inputs.online = inputs.online & topology.cpus;
  return allowed_from(inputs);
}

/// What is new in a list, each a line of its own.
void add_new(std::vector<std::string>& notes, const std::vector<std::string>& before,
             const std::vector<std::string>& now) {
  for (const std::string& line : now) {
    if (std::find(before.begin(), before.end(), line) == before.end()) notes.push_back(line);
  }
}

struct Fitted {
  Plan plan;
  std::vector<std::string> notes;
};

/// Every rank of this node asks for itself, and comes to the same plan where all see the same.
Fitted fitted(const Plan& plan, int rank, int ranks, const LaunchRequest& request,
              const Environment& environment) {
  Machine machine = read_machine({});
  RetargetWishes wishes{.any_class = request.force};
  const Allowed of_job = allowed_to_job(machine.topology);
  const auto masks = slurm_masks(environment);
  if (ranks > 1 && are_one_for_each(masks, ranks, rank, machine.allowed.cpus, of_job.cpus)) {
    wishes.masks = masks;
    machine.allowed = of_job;
  }
  const std::string named = request.plan_path.string();
  Fitted result{retarget(plan, machine, moved_gpus(environment, machine.topology, plan, ranks), wishes), {}};
  const bool others = result.plan.ranks.size() != plan.ranks.size();
  if (wishes.masks.empty()) {
    result.notes.push_back(fmt::format("{}, made for {}CPUs {}, is fitted to {}the CPUs allowed here, {}{}",
                                       named, others ? in_words(plan.ranks.size()) + " and " : "",
                                       print(plan.allocation.cpus),
                                       others ? in_words(result.plan.ranks.size()) + " and " : "",
                                       print(result.plan.allocation.cpus), advice(machine.allowed, ranks)));
  } else {
    const CpuSet own = wishes.masks.at(static_cast<std::size_t>(rank)) & machine.allowed.cpus;
    result.notes.push_back(
        fmt::format("{} is fitted to the CPUs that Slurm gave to rank {}, {} (with srun "
                    "--cpu-bind=none the plan shares out the job's)",
                    named, rank, print(own)));
  }
  add_new(result.notes, plan.warnings, result.plan.warnings);
  add_new(result.notes, plan.allocation.notes, result.plan.allocation.notes);
  return result;
}

Launch launch_by(const Plan& plan, LaunchRequest request, const Environment& environment) {
  const Allowed allowed = read_allowed(SysRoot());
  const int rank = rank_of(plan, request, environment).value;
  const int ranks = rank_count_of(plan, request, environment);
  if (holds(plan, rank, ranks, allowed) && !foreign_machine(plan.machine, read_machine_identity(SysRoot())))
    return launch_of(plan, request, allowed, environment);

  if (rank >= ranks) {
    throw Error(Exit::usage, fmt::format("rank {} of {} on this node", rank, ranks),
                "local ranks count from 0: look at --rank and the launcher's variables");
  }
  Fitted moved = fitted(plan, rank, ranks, request, environment);
  request.plan_path = plan_in_memory(moved.plan);
  Launch launch = launch_of(moved.plan, request, allowed, environment);
  launch.notes.insert(launch.notes.begin(), moved.notes.begin(), moved.notes.end());
  return launch;
}

LaunchRequest with_absolute_path(LaunchRequest request) {
  if (request.plan_path.empty()) throw Error(Exit::usage, "the plan's name is empty", "give --plan FILE");
  std::error_code error;
  const auto path = std::filesystem::absolute(request.plan_path, error);
  if (error) {
    throw Error(Exit::runtime_error, fmt::format("{}: {}", request.plan_path.string(), error.message()),
                "give the plan's whole path");
  }
  request.plan_path = path;
  return request;
}

}  // namespace

Launch launch_here(const LaunchRequest& request, const Environment& environment) {
  try {
    const LaunchRequest named = with_absolute_path(request);
    return launch_by(load_plan(named.plan_path), named, environment);
  } catch (const Error& error) {
    if (!request.force) throw;
    Launch unbound;
    unbound.notes.push_back(fmt::format("{}; going on, bound to nothing", error.what()));
    return unbound;
  }
}

}  // namespace zf
