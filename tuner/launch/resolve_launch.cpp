#include "launch/resolve_launch.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "base/cpu_list.hpp"
#include "base/error.hpp"
#include "base/format.hpp"
#include "base/text.hpp"
#include "launch/launch_parts.hpp"
#include "launch/resolve_binding.hpp"
#include "launchers/core_shortage.hpp"
#include "machine/machine.hpp"
#include "os/host_name.hpp"
#include "os/memory.hpp"
#include "plan/given_policy.hpp"
#include "plan/plan_json.hpp"
#include "planning/plan_differences.hpp"
#include "planning/retarget.hpp"
#include "text/command_line.hpp"

namespace zf {
namespace {

/// Returns a note if this GPU of the rank is not where the plan says. Looks only at two files of /sys.
std::optional<std::string> gpu_note(const RankGpu& gpu, int rank, const std::string& plan_path) {
  if (gpu.cpus.empty()) return std::nullopt;
  const SysRoot sysroot;
  const std::string next = plan_from_command(plan_path) + " writes the GPUs of this node into a plan";
  const auto list = sysroot.read(format_text("/sys/bus/pci/devices/{}/local_cpulist", gpu.pci_address));
  if (!list)
    return format_text("the plan's GPU {} of rank {} is not on this node; {}", gpu.pci_address, rank, next);
  try {
    const CpuSet online =
        parse_cpu_list(sysroot.read("/sys/devices/system/cpu/online").value_or(*list), "online");
    const CpuSet near = parse_cpu_list(*list, gpu.pci_address) & online;
    if (near == (gpu.cpus & online)) return std::nullopt;
    return format_text("the GPU {} of rank {} is near {} here, and near {} in the plan; {}", gpu.pci_address,
                       rank, near.empty() ? "no CPU" : print_cpus(near), print_cpus(gpu.cpus), next);
  } catch (const Error& error) {
    return format_text("where the GPU {} of rank {} is cannot be read: {}", gpu.pci_address, rank,
                       error.what());
  }
}

/// Returns the first such note about the rank's GPUs.
std::optional<std::string> gpus_note(const RankBinding& binding, const std::string& plan_path) {
  for (const RankGpu& gpu : gpus_of(binding)) {
    if (auto note = gpu_note(gpu, binding.rank, plan_path)) return note;
  }
  return std::nullopt;
}

/// Returns a note if the GPUs that the job may see are not the plan's, or cannot be compared with them. One
/// note for all ranks of the node is enough, so rank 0 has it.
std::optional<std::string> visible_gpus_note(const ResolvedBinding& here, const Environment& environment,
                                             const std::string& plan_path) {
  if (here.binding.rank != 0) return std::nullopt;
  const VisibleGpus visible = compare_visible_gpus(environment, here.gpus);
  if (!visible.not_compared.empty()) return visible.not_compared;
  if (visible.difference.empty()) return std::nullopt;
  return format_text("{}; the homes stay near the plan's GPUs, and {} moves the homes", visible.difference,
                     plan_from_command(plan_path));
}

/// Returns the launch of this process by the plan, which is at the path of the request.
Launch resolve_by_plan(const Plan& written, const LaunchRequest& request, const Allowed& seen,
                       const Environment& environment) {
  const PlanHere fitted = fitted_to_gpus_here(written, request.plan_path.string());
  const Plan& plan = fitted.plan;
  const EnvNumber rank = launch_rank(plan, request, environment);
  const int ranks = launch_rank_count(plan, request, environment);
  if (rank.value >= ranks) {
    throw Error(Exit::usage,
                format_text("rank {}: this node runs {}", rank.value,
                            print_count(static_cast<std::size_t>(ranks), "rank")),
                format_text("local ranks count from 0: check {} and the launcher's variables",
                            request.by == LaunchedBy::bind ? "rank=" : "--rank"));
  }
  const GpuSetting gpus =
      request.sets_gpus ? gpu_setting(plan, ranks, host_name(), environment) : GpuSetting();
  const ResolvedBinding here = resolve_binding(gpus.spreads ? with_spread_gpus(plan) : plan, rank, ranks,
                                               request, seen, environment, gpus.spreads);
  Launch launch =
      planned_launch({here.binding, plan.workload.framework, StartedOn::nothing, plan_id(written)}, rank,
                     request.plan_path, seen, environment, request.torchruns_one, request.by);
  launch.notes.insert(launch.notes.begin(), here.notes.begin(), here.notes.end());
  if (rank.value == 0)  // once for all ranks
    launch.notes.insert(launch.notes.begin(), fitted.notes.begin(), fitted.notes.end());
  launch.set.insert(gpus.variables.begin(), gpus.variables.end());
  const bool may_offer = !request.sets_gpus && request.by == LaunchedBy::exec;
  const std::string of_gpus = may_offer ? offered_gpus(plan, ranks, host_name(), environment) : gpus.note;
  if (!of_gpus.empty() && rank.value == 0) launch.notes.push_back(of_gpus);  // once for all ranks
  if (const auto shortage = core_shortage(here.ranks, here.cores, seen); shortage && rank.value == 0)
    launch.notes.insert(launch.notes.begin(),
                        (request.by == LaunchedBy::bind ? "" : "warning: ") + in_words(*shortage));
  const std::string path = request.plan_path.string();
  if (const auto note = gpus_note(here.binding, path)) launch.notes.push_back(*note);
  if (const auto note = visible_gpus_note(here, environment, path)) launch.notes.push_back(*note);
  return launch;
}

/// Throws Error(stale_plan) if this machine is not of the plan's class. Does nothing if the machine cannot be
/// read.
void need_class_here(const Plan& plan, LaunchedBy by) {
  std::optional<Machine> machine;
  try {
    machine = read_machine(source_for_all_ranks());
  } catch (const Error&) {
    return;
  }
  need_class_of(plan, machine->topology, by == LaunchedBy::exec);
}

/// Returns the launch as resolve_launch() does, and throws any error.
Launch resolve_or_throw(const LaunchRequest& request, const Environment& environment) {
  const Plan plan = request.plan != nullptr ? *request.plan : load_plan(request.plan_path);
  Allowed seen = read_allowed(SysRoot());
  seen.more_cpus = how_to_get_cpus(launcher_variables(request, environment), seen);
  if (auto launch = outer_launch(plan, request, seen, environment)) return *std::move(launch);
  try {
    return resolve_by_plan(plan, request, seen, environment);
  } catch (const Error&) {
    // No advice about ranks and CPUs helps with a plan of another class, so that is said instead. The machine
    // is read only now, because that takes longer than all the rest.
    if (!request.force) need_class_here(plan, request.by);
    throw;
  }
}

LaunchRequest with_absolute_path(LaunchRequest request) {
  if (request.plan != nullptr) return request;
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

Launch resolve_launch(const LaunchRequest& request, const Environment& environment) {
  try {
    Launch launch = resolve_or_throw(with_absolute_path(request), environment);
    settle_openmp(launch, request.openmp, environment, request.by);
    // With --memory-policy keep the line says what there is, also the system's default.
    settle_memory(launch, request.memory,
                  request.memory == MemoryChoice::keep ? thread_memory_policy().value_or(ThreadPolicy())
                                                       : policy_of_others(environment),
                  request.by);
    return launch;
  } catch (const Error& error) {
    if (!request.force) throw;
    return unbound_launch(error);
  }
}

}  // namespace zf
