#include "launch/resolve_launch.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "base/cpu_list.hpp"
#include "base/error.hpp"
#include "base/format.hpp"
#include "launch/mask_owner.hpp"
#include "launch/slurm_masks.hpp"
#include "launchers/local_rank.hpp"
#include "machine/machine.hpp"
#include "machine/moved_gpus.hpp"
#include "os/machine_identity.hpp"
#include "plan/plan_check.hpp"
#include "plan/plan_json.hpp"
#include "planning/node_facts.hpp"
#include "planning/plan_differences.hpp"
#include "planning/retarget.hpp"
#include "text/command_line.hpp"
#include "text/units.hpp"

namespace zf {
namespace {

/// Returns advice for the launcher if it bound this process but not the whole job; else an empty string.
/// Init's mask lacks the CPUs of isolcpus=, so their absence is not the launcher's doing.
std::string launcher_advice(const Allowed& allowed, const CpuSet& isolated, int ranks) {
  const auto by_mask = [&](const Exclusion& e) {
    return e.reason == ExclusionReason::affinity_mask && !isolated.contains(e.cpus);
  };
  const bool masked = std::any_of(allowed.exclusions.begin(), allowed.exclusions.end(), by_mask);
  if (ranks == 1 || !masked) return "";
  return "; if these CPUs are for this rank alone, tell the launcher to bind nothing "
         "(srun --cpu-bind=none, mpirun --bind-to none)";
}

/// Returns what this process could use if it had not been bound. Slurm's masks are parts of this.
Allowed allowed_to_job() {
  AllowedInputs inputs = read_allowed_inputs(SysRoot());
  inputs.affinity.reset();
  return allowed_from(inputs);
}

/// Adds to the notes each line of `now` that is not in `before`.
void add_new_lines(std::vector<std::string>& notes, const std::vector<std::string>& before,
                   const std::vector<std::string>& now) {
  for (const std::string& line : now) {
    if (std::find(before.begin(), before.end(), line) == before.end()) notes.push_back(line);
  }
}

/// A rank's binding for this allocation, and notes on what changed.
struct Fitted {
  RankBinding binding;
  std::vector<std::string> notes;
};

/// Returns true if the plan has all GPUs that Slurm names, by their numbers (N of /dev/nvidiaN). Otherwise
/// the numbers cannot be looked up in the plan, and the ranks have the plan's GPUs in its order.
bool gpus_are_planned(const Environment& environment, const Plan& plan) {
  auto step = devices_in(environment, "SLURM_STEP_GPUS");
  if (!step) step = devices_in(environment, "SLURM_JOB_GPUS");
  return step && std::all_of(step->ids.begin(), step->ids.end(), [&](const std::string& id) {
           return std::any_of(plan.ranks.begin(), plan.ranks.end(), [&](const RankBinding& rank) {
             return rank.gpu && rank.gpu->minor && std::to_string(*rank.gpu->minor) == id;
           });
         });
}

/// Fits the plan to this allocation. Every rank of this node does this alone, and all get the same plan
/// because all use the same things: the plan with its GPUs, the CPUs, and the number of ranks. So live GPUs
/// are not looked for: a driver may answer one rank and not another.
Fitted fitted(const Plan& plan, int rank, int ranks, const LaunchRequest& request,
              const Environment& environment) {
  MachineSource source;
  source.with_io = false;
  source.with_speeds = false;   // they change, and every rank must see the same
  source.keep_isolated = true;  // launchers' masks have them: they are left out below
  Machine machine = read_machine(source);
  machine.topology.gpus = planned_gpus(plan, machine.topology);
  RetargetOptions options{.any_class = request.force};
  Allowed of_job = allowed_to_job();
  of_job.cpus = of_job.cpus & machine.topology.cpus;
  const auto masks = slurm_masks(environment);
  const bool alone = request.cpus_of == CpusOf::rank;
  if (!alone && ranks > 1 && masks_are_in_force(masks, ranks, rank, machine.allowed.cpus, of_job.cpus)) {
    options.masks = masks;
    machine.allowed = of_job;
  }
  machine.keeps_isolated = plan.intent.isolated;
  // Masks leave them out one by one (rank_homes_within()).
  if (options.masks.empty() && !plan.intent.isolated) leave_out_isolated(machine.allowed, machine.isolated);
  RankGpus gpus = moved_gpus(gpus_are_planned(environment, plan) ? environment : Environment(),
                             machine.topology, plan, ranks);
  if (alone) gpus.gpus = {gpus.gpus.at(static_cast<std::size_t>(rank))};
  const Plan moved = retarget(plan, machine, gpus, options);
  Fitted result{moved.ranks.at(alone ? 0 : static_cast<std::size_t>(rank)), {}};
  result.binding.rank = rank;

  const std::string named = request.plan_path.string();
  const auto noun = [](const CpuSet& cpus) { return cpus.size() == 1 ? "CPU" : "CPUs"; };
  if (alone) {
    result.notes.push_back(format_text("{} is fitted to the {} that rank {} has for itself, {}", named,
                                       noun(moved.allocation.cpus), rank, print(moved.allocation.cpus)));
  } else if (options.masks.empty()) {
    const bool others = moved.ranks.size() != plan.ranks.size();
    result.notes.push_back(format_text(
        "{}, made for {}{}, is fitted to {}the {} allowed here, {}{}", named,
        others ? print_count(plan.ranks.size(), "rank") + " and " : "", print_cpus(plan.allocation.cpus),
        others ? print_count(moved.ranks.size(), "rank") + " and " : "", noun(moved.allocation.cpus),
        print(moved.allocation.cpus), launcher_advice(machine.allowed, machine.isolated.isolated, ranks)));
  } else {
    const CpuSet own = options.masks.at(static_cast<std::size_t>(rank)) & machine.allowed.cpus;
    result.notes.push_back(
        format_text("{} is fitted to the {} that Slurm gave to rank {}, {} (with srun "
                    "--cpu-bind=none the plan divides the CPUs of the whole job)",
                    named, noun(own), rank, print(own)));
  }
  for (const Exclusion& exclusion : machine.allowed.exclusions) {
    if (exclusion.reason != ExclusionReason::isolated && exclusion.reason != ExclusionReason::nohz_full)
      continue;
    result.notes.push_back(format_text("{} {} left out: {}", print_cpus(exclusion.cpus),
                                       exclusion.cpus.size() == 1 ? "is" : "are", exclusion.detail));
  }
  if (!alone) add_new_lines(result.notes, plan.warnings, moved.warnings);
  add_new_lines(result.notes, plan.allocation.notes, moved.allocation.notes);
  return result;
}

/// Returns the variable that says how many ranks run here; an empty string if none does.
std::string count_variable(const Environment& environment) {
  const auto count = launched_ranks(environment);
  return count ? count->variable : "";
}

/// Returns the rank's binding for this allocation: the plan's own, or a fitted one. Throws Error(stale_plan)
/// if it is ambiguous whose CPUs this process sees.
Fitted binding_here(const Plan& plan, const EnvNumber& rank_here, int ranks, const LaunchRequest& request,
                    const Allowed& seen, const Environment& environment) {
  const int rank = rank_here.value;
  if (request.cpus_of == CpusOf::rank) return fitted(plan, rank, ranks, request, environment);
  const Allowed of_job = allowed_to_job();
  const IsolatedCpus isolated = read_isolated_cpus(SysRoot());
  Fit fit = fit_of(plan, ranks, seen, of_job, isolated.isolated);
  if (fit == Fit::as_planned && foreign_machine(plan.machine, read_machine_identity(SysRoot())))
    fit = Fit::new_homes;
  if (fit == Fit::as_planned) {
    Fitted planned{binding_of(plan, rank), {}};
    if (auto note = isolated_homes_note(plan, seen, isolated)) planned.notes.push_back(*std::move(note));
    return planned;
  }
  if (fit == Fit::new_homes || request.cpus_of == CpusOf::job ||
      masks_are_in_force(slurm_masks(environment), ranks, rank, seen.cpus, of_job.cpus) ||
      sees_cpus_of_slurm_job(environment, rank_here.variable, count_variable(environment), seen.cpus,
                             of_job.cpus))
    return fitted(plan, rank, ranks, request, environment);
  throw Error(
      Exit::stale_plan,
      format_text("{} allowed here {} not hold the homes of all {} ranks in {}, and may be the job's or this "
                  "rank's alone",
                  print_cpus(seen.cpus), seen.cpus.size() == 1 ? "does" : "do", ranks,
                  request.plan_path.string()),
      "give --cpus job if all ranks share these CPUs, --cpus rank if this rank has them alone (a launcher "
      "that "
      "binds, or a container per rank), or --force to start unbound");
}

/// Returns a note if the rank's GPU is not where the plan says. Looks only at two files of /sys.
std::optional<std::string> gpu_note(const RankBinding& binding, const std::string& plan_path) {
  if (!binding.gpu || binding.gpu->cpus.empty()) return std::nullopt;
  const SysRoot sysroot;
  const std::string& address = binding.gpu->pci_address;
  const std::string next = format_text(
      "`zf-tune plan --from {0} -o {0}` writes the GPUs of this node into the plan", shell_quoted(plan_path));
  const auto list = sysroot.read(format_text("/sys/bus/pci/devices/{}/local_cpulist", address));
  if (!list)
    return format_text("the plan's GPU {} of rank {} is not on this node; {}", address, binding.rank, next);
  try {
    const CpuSet online =
        parse_cpu_list(sysroot.read("/sys/devices/system/cpu/online").value_or(*list), "online");
    const CpuSet near = parse_cpu_list(*list, address) & online;
    if (near == (binding.gpu->cpus & online)) return std::nullopt;
    return format_text("the GPU {} of rank {} is near {} here, and near {} in the plan; {}", address,
                       binding.rank, near.empty() ? "no CPU" : print_cpus(near),
                       print_cpus(binding.gpu->cpus), next);
  } catch (const Error& error) {
    return format_text("where the GPU {} of rank {} is cannot be read: {}", address, binding.rank,
                       error.what());
  }
}

/// Returns the launch that an outer zf-tune exec has prepared for this rank by the same plan; nothing if
/// there is none, if the plan has changed since, or if it does not fit here any more.
std::optional<Launch> launch_as_before(const Plan& plan, const LaunchRequest& request, const Allowed& allowed,
                                       const Environment& environment) {
  std::optional<ProcessBinding> binding;
  try {
    binding = own_binding(environment);
  } catch (const Error&) {
    return std::nullopt;  // a line of another version: the plan says it all
  }
  if (!binding || binding->started_on == StartedOn::nothing || binding->plan_id != plan_id(plan))
    return std::nullopt;
  if (request.cpus_of != CpusOf::unsaid || (request.rank && *request.rank != binding->rank.rank))
    return std::nullopt;
  const ProcessCpus process = process_cpus(binding->rank, binding->framework);
  if (!allowed.cpus.contains(process.cpus)) return std::nullopt;
  Launch launch;
  launch.rank = binding->rank.rank;
  launch.rank_source = "an outer zf-tune exec";
  launch.cpus = process.cpus;
  launch.mems = binding->rank.optimizer.mems & allowed.mems;
  return launch;
}

/// Returns the launch by this plan, for the rank that this process is.
Launch launch_of_rank(const Plan& plan, const LaunchRequest& request, const Allowed& seen,
                      const Environment& environment) {
  const EnvNumber rank = resolve_rank(plan, request, environment);
  const int ranks = resolve_rank_count(plan, request, environment);
  if (rank.value >= ranks) {
    throw Error(Exit::usage,
                format_text("rank {}: this node runs {}", rank.value,
                            print_count(static_cast<std::size_t>(ranks), "rank")),
                "local ranks count from 0: check --rank and the launcher's variables");
  }
  const Fitted here = binding_here(plan, rank, ranks, request, seen, environment);
  Launch launch = launch_of({here.binding, plan.workload.framework, StartedOn::nothing, plan_id(plan)}, rank,
                            request, seen, environment);
  launch.notes.insert(launch.notes.begin(), here.notes.begin(), here.notes.end());
  const std::string path = request.plan_path.string();
  if (const auto note = former_format_note(plan, path)) launch.notes.push_back(*note);
  if (const auto note = gpu_note(here.binding, path)) launch.notes.push_back(*note);
  return launch;
}

/// Throws Error(stale_plan) if this machine is not of the plan's class. Does nothing if the machine cannot be
/// read.
void need_class_here(const Plan& plan) {
  MachineSource source;
  source.with_io = false;
  source.with_speeds = false;
  source.keep_isolated = true;
  std::optional<Machine> machine;
  try {
    machine = read_machine(source);
  } catch (const Error&) {
    return;
  }
  need_class_of(plan, machine->topology);
}

/// Returns the launch by this plan.
Launch launch_by(const LaunchRequest& request, const Environment& environment) {
  const Plan plan = load_plan(request.plan_path);
  const Allowed seen = read_allowed(SysRoot());
  if (auto launch = launch_as_before(plan, request, seen, environment)) return *launch;
  try {
    return launch_of_rank(plan, request, seen, environment);
  } catch (const Error&) {
    // No advice about ranks and CPUs helps with a plan of another class, so that is said instead. The machine
    // is read only now, because that takes longer than all the rest.
    if (!request.force) need_class_here(plan);
    throw;
  }
}

LaunchRequest with_absolute_path(LaunchRequest request) {
  if (request.plan_path.empty()) throw Error(Exit::usage, "the plan's name is empty", "give --plan FILE");
  std::error_code error;
  const auto path = std::filesystem::absolute(request.plan_path, error);
  if (error) {
    throw Error(Exit::runtime_error, format_text("{}: {}", request.plan_path.string(), error.message()),
                "give the plan's absolute path");
  }
  request.plan_path = path;
  return request;
}

}  // namespace

Launch unbound_launch(const Error& error) {
  Launch unbound;
  unbound.notes.push_back(format_text("{}; going on, bound to nothing", error.what()));
  return unbound;
}

Launch resolve_launch(const LaunchRequest& request, const Environment& environment) {
  try {
    return launch_by(with_absolute_path(request), environment);
  } catch (const Error& error) {
    if (!request.force) throw;
    return unbound_launch(error);
  }
}

}  // namespace zf
