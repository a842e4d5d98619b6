#include "launch/resolve_binding.hpp"

#include <algorithm>
#include <functional>
#include <optional>

#include "base/cpu_list.hpp"
#include "base/error.hpp"
#include "base/format.hpp"
#include "base/text.hpp"
#include "gpus/gpu_lists.hpp"
#include "gpus/moved_gpus.hpp"
#include "homes/shared_homes.hpp"
#include "launch/allocation_fit.hpp"
#include "launch/mask_owner.hpp"
#include "launch/slurm_masks.hpp"
#include "launchers/core_shortage.hpp"
#include "launchers/local_rank.hpp"
#include "machine/machine.hpp"
#include "os/machine_identity.hpp"
#include "os/shared_cpus.hpp"
#include "plan/plan_check.hpp"
#include "planning/node_facts.hpp"
#include "planning/retarget.hpp"

namespace zf {
namespace {

/// Returns advice for the launcher if it bound this process but not the whole job; else an empty string.
/// Init's mask lacks the CPUs of isolcpus=, so their absence is not the launcher's doing.
std::string launcher_advice(const Allowed& allowed, const CpuSet& isolated, int ranks,
                            const Environment& environment) {
  const auto by_mask = [&](const Exclusion& e) {
    return e.reason == ExclusionReason::affinity_mask && !isolated.contains(e.cpus);
  };
  const bool masked = std::any_of(allowed.exclusions.begin(), allowed.exclusions.end(), by_mask);
  if (ranks == 1 || !masked) return "";
  return format_text("; if these CPUs are for this rank alone, tell the launcher to bind nothing ({})",
                     how_to_unbind(environment));
}

/// Returns what this process could use if it had not been bound. Slurm's masks are parts of this.
Allowed allowed_to_job() {
  AllowedInputs inputs = read_allowed_inputs(SysRoot());
  inputs.affinity.reset();
  return allowed_from(inputs);
}

/// Returns true if the plan has all GPUs that Slurm names, by their numbers (N of /dev/nvidiaN). Otherwise
/// the numbers cannot be looked up in the plan, and the ranks have the plan's GPUs in its order.
bool gpus_are_planned(const Environment& environment, const Plan& plan) {
  const auto step = slurm_gpus(environment);
  return step && std::all_of(step->ids.begin(), step->ids.end(), [&](const std::string& id) {
           return std::any_of(plan.ranks.begin(), plan.ranks.end(), [&](const RankBinding& rank) {
             return std::ranges::any_of(gpus_of(rank), [&](const RankGpu& gpu) {
               return gpu.minor && std::to_string(*gpu.minor) == id;
             });
           });
         });
}

/// Returns the variable that says how many ranks run here; an empty string if none does.
std::string count_variable(const Environment& environment) {
  const auto count = launched_ranks(environment);
  return count ? count->variable : "";
}

/// Returns the masks that Slurm gave to the ranks of this node, if they are in force; else nothing. All ranks
/// get the same answer.
std::vector<CpuSet> masks_in_force(const Environment& environment, int rank, int ranks, const CpuSet& seen,
                                   const CpuSet& of_job) {
  if (environment.get("TORCHELASTIC_RUN_ID")) return {};  // the ranks of torchrun are not Slurm's tasks
  std::vector<CpuSet> masks = slurm_masks(environment);
  if (count_variable(environment) == "SLURM_STEP_TASKS_PER_NODE") masks = masks_of_tasks(masks, ranks);
  return masks_are_in_force(masks, ranks, rank, seen, of_job) ? masks : std::vector<CpuSet>();
}

/// Returns whether a home of the plan has CPUs that a rank's mask lacks. Then no rank keeps its planned home:
/// each decides alone, and one that sees all homes must come to the same answer as one that does not.
bool lack_homes(const std::vector<CpuSet>& masks, const Plan& plan) {
  CpuSet homes;
  for (const RankBinding& rank : plan.ranks) homes |= rank.home.cpus;
  return std::any_of(masks.begin(), masks.end(), [&](const CpuSet& mask) { return !mask.contains(homes); });
}

/// The machine to which a plan moves, and the masks that Slurm gave to the ranks; none: the plan divides the
/// CPUs.
struct Target {
  Machine machine;
  std::vector<CpuSet> masks;
};

/// Reads the machine for all ranks alike. Live GPUs are not looked for: a driver may answer one rank and not
/// another.
Target read_target(const Plan& plan, int rank, int ranks, bool alone, const Environment& launcher) {
  MachineSource source;
  source.with_io = false;
  source.with_speeds = false;   // they change, and every rank must see the same
  source.keep_isolated = true;  // launchers' masks have them: they are left out below
  source.own_cpus = plan.intent.own_cpus;
  Target target{read_machine(source), {}};
  Machine& machine = target.machine;
  machine.topology.gpus = planned_gpus(plan, machine.topology);
  const std::string more_cpus = how_to_get_cpus(launcher, machine.allowed);
  Allowed of_job = allowed_to_job();
  of_job.cpus = of_job.cpus & machine.topology.cpus;
  if (!alone && ranks > 1)
    target.masks = masks_in_force(launcher, rank, ranks, machine.allowed.cpus, of_job.cpus);
  // Ranks with one mask see the same CPUs, and the plan divides these as those of any job.
  const bool differ =
      std::ranges::adjacent_find(target.masks, std::ranges::not_equal_to()) != target.masks.end();
  if (!differ) target.masks.clear();
  if (differ) {
    of_job.own_by_name = machine.allowed.own_by_name;
    machine.allowed = of_job;
  }
  machine.allowed.more_cpus = more_cpus;
  machine.keeps_isolated = plan.intent.isolated;
  // Masks leave them out one by one (rank_homes_within()).
  if (target.masks.empty() && !plan.intent.isolated) leave_out_isolated(machine.allowed, machine.isolated);
  return target;
}

/// Says to which CPUs the plan was moved, and why to these.
std::string retargeted_note(const Plan& plan, const Plan& moved, const Target& target, int rank, int ranks,
                            const LaunchRequest& request, const Environment& launcher) {
  const std::string named = request.plan_path.string();
  const auto noun = [](const CpuSet& cpus) { return cpus.size() == 1 ? "CPU" : "CPUs"; };
  const CpuSet& cpus = moved.allocation.cpus;
  if (request.cpus_of == CpusOf::rank) {
    return format_text("{} is fitted to the {} that rank {} has for itself, {}", named, noun(cpus), rank,
                       print(cpus));
  }
  const Machine& machine = target.machine;
  if (!target.masks.empty()) {
    const CpuSet own = target.masks.at(static_cast<std::size_t>(rank)) & machine.allowed.cpus;
    const auto sharing =
        std::ranges::count_if(target.masks, [&](const CpuSet& mask) { return mask.intersects(own); });
    const CpuSet& home = moved.ranks.at(static_cast<std::size_t>(rank)).home.cpus;
    return format_text(
        "{} is fitted to the {} that Slurm gave to rank {}, {}{} (with srun --cpu-bind=none the plan divides "
        "the CPUs of the whole job)",
        named, noun(own), rank, print(own),
        sharing > 1 ? format_text("; other ranks' masks overlap this one, and its home is {}", print(home))
                    : "");
  }
  const bool others = moved.ranks.size() != plan.ranks.size();
  return format_text("{}, made for {}{}, is fitted to {}the {} allowed here, {}{}", named,
                     others ? print_count(plan.ranks.size(), "rank") + " and " : "",
                     print_cpus(plan.allocation.cpus),
                     others ? print_count(moved.ranks.size(), "rank") + " and " : "", noun(cpus), print(cpus),
                     launcher_advice(machine.allowed, machine.isolated.isolated, ranks, launcher));
}

/// Returns a rank's binding by the plan, and which GPUs and how many cores all ranks have.
ResolvedBinding bound_by(const Plan& plan, const RankBinding& binding) {
  return {binding, {}, gpus_of_ranks(plan), plan.ranks.size(), cores_of_ranks(plan)};
}

/// Returns the GPUs of one rank as those of all.
RankGpus only_rank(RankGpus gpus, std::size_t rank) {
  gpus.gpus = {gpus.gpus.at(rank)};
  if (!gpus.more.empty()) gpus.more = {gpus.more.at(rank)};
  gpus.spread.clear();
  return gpus;
}

/// Moves the plan to this allocation and returns the rank's part of it. Every rank of this node does this
/// alone, and all get the same plan because all use the same things: the plan with its GPUs, the CPUs, and
/// the number of ranks. Says so in the first note, unless the plan fits except for its GPUs.
ResolvedBinding retargeted(const Plan& plan, int rank, int ranks, const LaunchRequest& request,
                           const Environment& environment, bool fits_but_for_gpus = false) {
  const bool alone = request.cpus_of == CpusOf::rank;
  const Environment& launcher = launcher_variables(request, environment);
  const Target target = read_target(plan, rank, ranks, alone, launcher);
  RankGpus gpus = moved_gpus(gpus_are_planned(environment, plan) ? environment : Environment(),
                             target.machine.topology, plan, ranks);
  if (alone) gpus = only_rank(std::move(gpus), static_cast<std::size_t>(rank));
  RetargetOptions options{.any_class = request.force};
  options.masks = target.masks;
  const Plan moved = retarget(plan, target.machine, gpus, options);
  ResolvedBinding resolved = bound_by(moved, moved.ranks.at(alone ? 0 : static_cast<std::size_t>(rank)));
  if (alone) resolved.gpus = gpus_of_ranks(plan);
  resolved.binding.rank = rank;
  if (!fits_but_for_gpus)
    resolved.notes.push_back(retargeted_note(plan, moved, target, rank, ranks, request, launcher));
  for (const Exclusion& exclusion : target.machine.allowed.exclusions) {
    if (exclusion.reason != ExclusionReason::isolated && exclusion.reason != ExclusionReason::nohz_full)
      continue;
    resolved.notes.push_back(format_text("{} {} left out: {}", print_cpus(exclusion.cpus),
                                         exclusion.cpus.size() == 1 ? "is" : "are", exclusion.detail));
  }
  if (!alone) {
    std::vector<std::string> said = plan.warnings;
    // The first note has the numbers of ranks, unless it is about Slurm's masks.
    if (target.masks.empty()) said.push_back(other_rank_count(plan.workload.ranks, moved.workload.ranks));
    add_new_lines(resolved.notes, said, moved.warnings);
  }
  add_new_lines(resolved.notes, plan.allocation.notes, moved.allocation.notes);
  return resolved;
}

/// Returns true if a launcher that gives ranks masks of their own has started this rank, and an affinity mask
/// keeps CPUs of the job from it.
bool is_bound_by_launcher(const std::string& rank, const Environment& launcher, const CpuSet& seen,
                          const CpuSet& of_job) {
  return seen != of_job && (may_bind_each_rank(rank) || may_bind_each_rank(count_variable(launcher)));
}

/// Returns how the user says which CPUs those of a rank are, if the remedies before do not help.
/// names_launcher: these say how its launcher binds nothing.
std::string how_to_say_cpus(LaunchedBy by, bool names_launcher) {
  const std::string which =
      "--cpus job if all ranks share these CPUs, --cpus rank if this rank has them alone (a launcher that "
      "binds, or a container per rank)";
  if (by != LaunchedBy::bind) return format_text("give {}, or --force to start unbound", which);
  return format_text("start the ranks {}with zf-tune exec and {}",
                     names_launcher ? "" : "with no mask (taskset, srun --cpu-bind), or ", which);
}

/// Returns the error of CPUs that may be the job's or one rank's alone. If no launcher has bound the rank and
/// there are fewer CPUs than ranks, that is the likely fault: it begins with the ratio. If a launcher has
/// bound the rank, the first remedy is the launcher's (`unbind`): ranks may share a mask, and then neither
/// --cpus job nor --cpus rank is right. torchrun may have bound it without a trace.
Error ambiguous_cpus(const Allowed& seen, int ranks, const LaunchRequest& request, const std::string& unbind,
                     bool by_torchrun) {
  const std::size_t cpus = seen.cpus.size();
  const bool too_few = unbind.empty() && cpus < static_cast<std::size_t>(ranks);
  const std::string divides = ", and the plan divides the job's CPUs";
  return {
      Exit::stale_plan,
      format_text("{}{} allowed here {} not hold the homes of all {} ranks in {}, and may be the job's or "
                  "this rank's alone",
                  too_few ? format_text("{} ranks have {}: ", ranks, print_count(cpus, "CPU")) : "",
                  print_cpus(seen.cpus), cpus == 1 ? "does" : "do", ranks, request.plan_path.string()),
      request.by == LaunchedBy::plugin
          ? "start with srun --cpu-bind=none" + divides  // it has no option --cpus
          : format_text(
                "{}{}{}", unbind.empty() ? "" : format_text("start with {}{}; or ", unbind, divides),
                (too_few || (by_torchrun && unbind.empty())) && !seen.more_cpus.empty()
                    ? format_text("{} {}; or ",
                                  too_few ? "give the job more:" : "if torchrun has bound this rank, start",
                                  seen.more_cpus)
                    : "",
                how_to_say_cpus(request.by, !unbind.empty()))};
}

}  // namespace

void add_new_lines(std::vector<std::string>& notes, const std::vector<std::string>& before,
                   const std::vector<std::string>& now) {
  for (const std::string& line : now) {
    if (std::find(before.begin(), before.end(), line) == before.end()) notes.push_back(line);
  }
}

ResolvedBinding resolve_binding(const Plan& plan, const EnvNumber& rank_here, int ranks,
                                const LaunchRequest& request, const Allowed& seen,
                                const Environment& environment, bool other_gpus) {
  const int rank = rank_here.value;
  if (request.cpus_of == CpusOf::rank) return retargeted(plan, rank, ranks, request, environment);
  const Allowed of_job = allowed_to_job();
  const IsolatedCpus isolated = read_isolated_cpus(SysRoot());
  AllocationFit fit = allocation_fit_of(plan, ranks, seen, of_job, isolated.isolated);
  const Environment& launcher = launcher_variables(request, environment);
  const std::vector<CpuSet> masks = masks_in_force(launcher, rank, ranks, seen.cpus, of_job.cpus);
  if (fit == AllocationFit::as_planned && lack_homes(masks, plan)) fit = AllocationFit::new_homes;
  if (fit == AllocationFit::as_planned && foreign_machine(plan.machine, read_machine_identity(SysRoot())))
    fit = AllocationFit::new_homes;
  if (fit == AllocationFit::as_planned && other_gpus)
    return retargeted(plan, rank, ranks, request, environment, true);
  if (fit == AllocationFit::as_planned) {
    ResolvedBinding planned = bound_by(plan, binding_of(plan, rank));
    const bool pins = !plan.allocation.shared_cpus && !plan.intent.own_cpus;
    if (rank == 0 && pins && neighbours_share(seen, isolated))
      planned.notes.emplace_back(kPinnedAmongNeighbours);
    if (auto note = isolated_homes_note(plan, seen, isolated)) planned.notes.push_back(*std::move(note));
    return planned;
  }
  const std::string by = request.launcher != nullptr ? local_rank(launcher)->variable : rank_here.variable;
  if (fit == AllocationFit::new_homes || request.cpus_of == CpusOf::job || !masks.empty() ||
      sees_cpus_of_slurm_job(launcher, by, count_variable(launcher), seen.cpus, of_job.cpus))
    return retargeted(plan, rank, ranks, request, environment);
  throw ambiguous_cpus(
      seen, ranks, request,
      is_bound_by_launcher(by, launcher, seen.cpus, of_job.cpus) ? how_to_unbind(launcher) : "",
      launcher.get("TORCHELASTIC_RUN_ID").has_value());
}

}  // namespace zf
