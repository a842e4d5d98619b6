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
#include "text/units.hpp"

namespace zf {
namespace {

/// Above the descriptors that shell scripts choose by hand.
constexpr int kLowestDescriptor = 100;

/// Returns the path of a file without a name that holds the plan. The file stays open in this process, also
/// after exec. The path works for its children as well, for as long as this process lives, and nothing is
/// left to clean up. Throws Error(runtime_error).
std::filesystem::path plan_in_memory(const Plan& plan) {
  const char* const what = "cannot hold the plan in memory";
  const FileDescriptor file(checked(::memfd_create("zf-plan.json", MFD_CLOEXEC | MFD_ALLOW_SEALING), what));
  const std::string text = print_plan(plan);
  if (const int error = write_all_at(file.get(), 0, std::as_bytes(std::span(text))); error != 0)
    throw_errno(error, what);
  checked(::fcntl(file.get(), F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL), what);
  const int kept = checked(::fcntl(file.get(), F_DUPFD, kLowestDescriptor), what);
  // Not /proc/self: in a child that names the child, and Python's children do not inherit the descriptor.
  return fmt::format("/proc/{}/fd/{}", ::getpid(), kept);
}

/// Returns advice for the launcher if it bound this process but not the whole job; else an empty string.
std::string launcher_advice(const Allowed& allowed, int ranks) {
  const auto by_mask = [](const Exclusion& e) { return e.reason == ExclusionReason::affinity_mask; };
  const bool masked = std::any_of(allowed.exclusions.begin(), allowed.exclusions.end(), by_mask);
  if (ranks == 1 || !masked) return "";
  return "; if these CPUs are for this rank alone, tell the launcher to bind nothing "
         "(srun --cpu-bind=none, mpirun --bind-to none)";
}

/// Returns what this process could use if it had not been bound. Slurm's masks are parts of this.
Allowed allowed_to_job(const Topology& topology) {
  AllowedInputs inputs = read_allowed_inputs(SysRoot());
  inputs.affinity.reset();
  inputs.online = inputs.online & topology.cpus;
  return allowed_from(inputs);
}

/// Adds to the notes each line of `now` that is not in `before`.
void add_new_lines(std::vector<std::string>& notes, const std::vector<std::string>& before,
                   const std::vector<std::string>& now) {
  for (const std::string& line : now) {
    if (std::find(before.begin(), before.end(), line) == before.end()) notes.push_back(line);
  }
}

/// A plan for this allocation, and notes on what changed.
struct Retargeted {
  Plan plan;
  std::vector<std::string> notes;
};

/// Retargets the plan to this allocation. Every rank of this node does this alone, and all get the same plan
/// if all see the same CPUs.
Retargeted retargeted(const Plan& plan, int rank, int ranks, const LaunchRequest& request,
                      const Environment& environment) {
  Machine machine = read_machine({});
  RetargetOptions options{.any_class = request.force};
  const Allowed of_job = allowed_to_job(machine.topology);
  const auto masks = slurm_masks(environment);
  if (ranks > 1 && masks_are_in_force(masks, ranks, rank, machine.allowed.cpus, of_job.cpus)) {
    options.masks = masks;
    machine.allowed = of_job;
  }
  const std::string named = request.plan_path.string();
  Retargeted result{retarget(plan, machine, moved_gpus(environment, machine.topology, plan, ranks), options),
                    {}};
  const bool others = result.plan.ranks.size() != plan.ranks.size();
  if (options.masks.empty()) {
    result.notes.push_back(fmt::format(
        "{}, made for {}CPUs {}, is fitted to {}the CPUs allowed here, {}{}", named,
        others ? print_count(plan.ranks.size(), "rank") + " and " : "", print(plan.allocation.cpus),
        others ? print_count(result.plan.ranks.size(), "rank") + " and " : "",
        print(result.plan.allocation.cpus), launcher_advice(machine.allowed, ranks)));
  } else {
    const CpuSet own = options.masks.at(static_cast<std::size_t>(rank)) & machine.allowed.cpus;
    result.notes.push_back(
        fmt::format("{} is fitted to the CPUs that Slurm gave to rank {}, {} (with srun "
                    "--cpu-bind=none the plan divides the CPUs of the whole job)",
                    named, rank, print(own)));
  }
  add_new_lines(result.notes, plan.warnings, result.plan.warnings);
  add_new_lines(result.notes, plan.allocation.notes, result.plan.allocation.notes);
  return result;
}

/// Returns the launch by this plan, retargeted if it does not apply here unchanged.
Launch launch_by(const Plan& plan, LaunchRequest request, const Environment& environment) {
  const Allowed allowed = read_allowed(SysRoot());
  const int rank = resolve_rank(plan, request, environment).value;
  const int ranks = resolve_rank_count(plan, request, environment);
  if (plan_applies_to_rank(plan, rank, ranks, allowed) &&
      !foreign_machine(plan.machine, read_machine_identity(SysRoot())))
    return launch_of(plan, request, allowed, environment);

  if (rank >= ranks) {
    throw Error(
        Exit::usage,
        fmt::format("rank {}: this node runs {}", rank, print_count(static_cast<std::size_t>(ranks), "rank")),
        "local ranks count from 0: check --rank and the launcher's variables");
  }
  Retargeted moved = retargeted(plan, rank, ranks, request, environment);
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
                "give the plan's absolute path");
  }
  request.plan_path = path;
  return request;
}

}  // namespace

Launch resolve_launch(const LaunchRequest& request, const Environment& environment) {
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
