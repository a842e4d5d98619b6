#include "where/asker.hpp"

#include <utility>

#include "base/cpu_list.hpp"
#include "base/error.hpp"
#include "base/format.hpp"
#include "launch/resolve_launch.hpp"
#include "launchers/launcher.hpp"
#include "launchers/local_rank.hpp"
#include "os/affinity.hpp"

namespace zf {
namespace {

Environment without(const Environment& environment, const std::set<std::string>& names) {
  auto variables = environment.all();
  std::erase_if(variables, [&](const auto& variable) { return names.contains(variable.first); });
  return Environment(std::move(variables));
}

/// Returns whether a launcher gave this process the numbers with which it asks.
bool is_numbered_by_launcher(const Asker& asker) try {
  const auto rank = local_rank(asker.with_ranks);
  const auto ranks = launched_ranks(asker.with_ranks);
  return rank && ranks && asker.request.rank == rank->value && asker.request.ranks == ranks->value;
} catch (const Error&) {  // malformed: the caller has given the numbers
  return false;
}

}  // namespace

void refuse(const std::string& why) { throw Error(Exit::infeasible, why); }

Environment without_lists(const Environment& environment) {
  return without(environment, {"CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"});
}

Environment without_ranks(const Environment& environment) {
  std::set<std::string> names{"ZF_RANK",    "ZF_RANK_FROM",      "ZF_PLAN",
                              "ZF_ALLOWED", "ZF_OPTIMIZER_CPUS", "SLURM_NTASKS_PER_NODE"};
  for (const Launcher& launcher : launchers()) {
    if (launcher.rule == CountRule::per_node) continue;  // Slurm's
    names.insert(launcher.rank);
    for (const char* const count : launcher.counts) {
      if (count != nullptr) names.insert(count);
    }
  }
  return without(environment, names);
}

Machine read_with_gpus(const Environment& environment, std::optional<CpuSet> within) {
  MachineSource source;
  source.within = std::move(within);
  source.with_device_nodes = true;
  return read_machine_and_ask_nvml(source, environment);
}

MachineSource source_of_files() {
  MachineSource source;
  source.with_io = false;
  source.keep_isolated = true;
  return source;
}

Launch launch_by(const Asker& asker, const Plan& plan, const std::string& name, int rank,
                 std::optional<int> ranks, const Environment& environment) {
  LaunchRequest request;
  request.plan = &plan;
  request.plan_path = name;
  request.by = LaunchedBy::bind;
  if (asker.request.mask_of == MaskOf::job) request.cpus_of = CpusOf::job;
  if (is_numbered_by_launcher(asker)) request.launcher = &asker.with_ranks;
  auto variables = environment.all();
  if (ranks) {  // as a launcher would say it
    variables["LOCAL_RANK"] = std::to_string(rank);
    variables["LOCAL_WORLD_SIZE"] = std::to_string(*ranks);
  } else {
    request.rank = rank;
  }
  const Environment of_rank(std::move(variables));
  set_thread_affinity(0, asker.seen);
  if (asker.request.mask_of == MaskOf::outer) {
    const auto outer = parse_binding(of_rank.get(kBindingVariable).value_or(""));
    const CpuSet had = process_cpus(outer.rank, outer.framework).cpus;
    LaunchRequest of_outer = request;
    of_outer.rank = outer.rank.rank;
    const CpuSet planned = resolve_launch(of_outer, of_rank).cpus;
    if (planned != had) {
      refuse(format_text(
          "this process, or the one that started it, was bound to {}, and the plan has {} for its rank: "
          "which CPUs the job has is not known. Start it unbound",
          print_cpus(had), print_cpus(planned)));
    }
  }
  return resolve_launch(request, of_rank);
}

}  // namespace zf
