#include "planning/plan_differences.hpp"

#include <algorithm>
#include <utility>

#include "base/cpu_list.hpp"
#include "base/format.hpp"
#include "base/text.hpp"
#include "machine/fingerprint.hpp"
#include "text/command_line.hpp"

namespace zf {
namespace {

bool singular(const CpuSet& cpus) { return cpus.size() == 1; }

void compare_online_cpus(const CpuSet& planned, const Topology& topology,
                         std::vector<PlanDifference>& differences) {
  const CpuSet offline = planned & (topology.complete_cpus - topology.cpus);
  const CpuSet back = (topology.cpus - planned) & topology.complete_cpus;
  if (!offline.empty()) {
    differences.push_back(format_text("{} {} offline here, and {} online in the plan", print_cpus(offline),
                                      singular(offline) ? "is" : "are", singular(offline) ? "was" : "were"));
  }
  if (!back.empty()) {
    differences.push_back(format_text("{} {} online here, and {} not in the plan", print_cpus(back),
                                      singular(back) ? "is" : "are", singular(back) ? "was" : "were"));
  }
}

/// Returns true if this machine may be of the plan's class, with CPUs that went offline.
bool lacks_only_cpus(const MachineClass& planned, const Topology& topology) {
  return planned.model == topology.cpu_model && planned.packages == topology.packages &&
         planned.cpus != topology.cpus && planned.cpus.contains(topology.cpus) &&
         topology.complete_cpus.contains(planned.cpus);
}

void compare_limits(const Allocation& planned, const Allowed& allowed,
                    std::vector<PlanDifference>& differences) {
  const auto from = [](const std::string& path) { return path.empty() ? "" : format_text(" ({})", path); };
  if (planned.cpu_quota != allowed.cpu_quota) {
    const auto words = [](const std::optional<double>& quota) {
      return quota ? format_text("{:.4g} {} worth", *quota, *quota == 1 ? "CPU's" : "CPUs'") : "none";
    };
    differences.push_back(format_text("CPU quota: {} in the plan, {} here{}", words(planned.cpu_quota),
                                      words(allowed.cpu_quota), from(allowed.cpu_quota_path)));
  }
  if (allowed.memory_bytes && (!planned.memory_bytes || *allowed.memory_bytes < *planned.memory_bytes)) {
    differences.push_back(format_text("memory limit: {} in the plan, {} here{}",
                                      planned.memory_bytes ? print_bytes(*planned.memory_bytes) : "none",
                                      print_bytes(*allowed.memory_bytes), from(allowed.memory_path)));
  }
}

void compare_gpu(const RankGpu& planned, int rank, const Plan& plan, const Topology& topology,
                 std::vector<PlanDifference>& differences) {
  const auto place = [](const std::optional<Node>& node) {
    return node ? format_text("on node {}", node->os_index) : "not on one node";
  };
  const std::string name = format_text("GPU {} of rank {}", planned.pci_address, rank);
  const Gpu* const here = gpu_at(topology.gpus, planned.pci_address);
  if (here == nullptr) {
    differences.push_back(name + " is not here");
  } else if (!here->usable) {
    differences.push_back(format_text("{} cannot be used: {}", name, here->why_unusable));
  } else if (here->node != planned.node) {
    differences.push_back(
        format_text("{}: {} in the plan, {} here", name, place(planned.node), place(here->node)));
  } else if (const CpuSet& near = planned.cpus;
             !near.empty() && (near & topology.cpus) != (here->local_cpus & plan.machine.cpus)) {
    // CPUs that are offline on one side have a sentence of their own.
    differences.push_back(format_text("{}: near {} in the plan, near {} here", name, print_cpus(near),
                                      print(here->local_cpus)));
  }
}

void compare_gpus(const Plan& plan, const Topology& topology, std::vector<PlanDifference>& differences) {
  for (const RankBinding& rank : plan.ranks) {
    for (const RankGpu& gpu : gpus_of(rank)) compare_gpu(gpu, rank.rank, plan, topology, differences);
  }
}

}  // namespace

std::vector<PlanDifference> plan_differences(const Plan& plan, const Machine& machine, GpusOfRanks gpus,
                                             Extent extent) {
  auto differences = class_differences(plan.machine, machine_class_of(machine.topology));
  const bool is_foreign = !differences.empty() && !lacks_only_cpus(plan.machine, machine.topology);
  compare_online_cpus(plan.machine.cpus, machine.topology, differences);
  if (is_foreign) return differences;  // that nodes and GPUs of the plan are not here follows from the class
  if (extent == Extent::allocation) {
    for (PlanDifference& difference : differences_from_allowed(plan, machine.allowed)) {
      differences.push_back(std::move(difference));
    }
    compare_limits(plan.allocation, machine.allowed, differences);
  }
  if (gpus == GpusOfRanks::compared) compare_gpus(plan, machine.topology, differences);
  return differences;
}

}  // namespace zf
