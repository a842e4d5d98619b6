#include "planning/plan_differences.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../topology/machines.hpp"
#include "../topology/make_topology.hpp"
#include "base/cpu_list.hpp"
#include "base/format.hpp"
#include "homes/rank_homes.hpp"
#include "paths.hpp"
#include "planning/assemble.hpp"
#include "simulate/simulated_machine.hpp"

namespace zf {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

Machine all_of(const Topology& topology) { return {topology, allowed_from(allowed_inputs_of(topology))}; }

Plan plan_on(const Machine& machine, int ranks) {
  const RankHomes placed = rank_homes(machine, rank_gpus({}, machine.topology, ranks));
  return assemble({}, machine, {"w", 1000, ranks, 1}, split_of(placed.homes, {.control = Control::half}), {},
                  {}, {}, {});
}

/// Returns the differences between a plan for all of one machine and another machine.
std::vector<PlanDifference> between(const Topology& planned, const Topology& here, int ranks = 2) {
  return plan_differences(plan_on(all_of(planned), ranks), all_of(here));
}

Topology simulated(const char* name) {
  return load_simulated_machine(std::string(kSourceDir) + "/configs/machines/" + name).topology;
}

/// Returns 2 packages with 16 cores in all and a GPU on each.
Topology with_gpus() {
  Topology topology = make_topology({.packages = 2, .cores_per_l3 = 8, .pus_per_core = 2});
  for (const NumaNode& node : topology.nodes) {
    topology.gpus.push_back(
        {format_text("0000:{}0:00.0", 3 + node.id.os_index), "a GPU", node.cpus, node.id});
  }
  return topology;
}

TEST(PlanDifferences, NoneOnTheSameMachine) {
  EXPECT_THAT(between(with_gpus(), with_gpus()), IsEmpty());
  for (const char* name : {"qemu-2ht.xml", "qemu-2ht-offline2,5.xml", "qemu-memonly.xml"}) {
    EXPECT_THAT(between(topology_of(own_machine(name)), topology_of(own_machine(name))), IsEmpty()) << name;
  }
}

TEST(PlanDifferences, OfAWholeNodeAreThoseOfTheMachineAlone) {
  const Plan plan = plan_on(all_of(with_gpus()), 2);
  Machine confined = all_of(with_gpus());
  confined.allowed.cpus = parse_cpu_list("0", "");
  confined.allowed.mems = {Node{0}};
  confined.allowed.cpu_quota = 1;
  confined.allowed.memory_bytes = 1U << 20;
  EXPECT_THAT(plan_differences(plan, confined), Contains(HasSubstr("CPU quota")));
  EXPECT_THAT(plan_differences(plan, confined, GpusOfRanks::compared, Extent::whole_node), IsEmpty());
  confined.topology.gpus.pop_back();
  EXPECT_THAT(plan_differences(plan, confined, GpusOfRanks::compared, Extent::whole_node),
              ElementsAre(HasSubstr("of rank 1 is not here")));
  const Machine other = all_of(simulated("epyc-7742-8gpu-nps4.json"));
  EXPECT_FALSE(plan_differences(plan, other, GpusOfRanks::left_out, Extent::whole_node).empty());
}

TEST(PlanDifferences, FirmwareNumaMode) {
  EXPECT_THAT(
      between(simulated("epyc-7742-8gpu-nps1.json"), simulated("epyc-7742-8gpu-nps4.json"), 8),
      Contains("NUMA nodes with CPUs: 2 in the plan, 8 here (the firmware's NUMA mode differs: NPS or "
               "sub-NUMA clustering)"));
}

TEST(PlanDifferences, OfAForeignPlanAreThoseOfTheClassAlone) {
  for (const auto& [planned, here] : {std::pair(simulated("epyc-7742-8gpu-nps4.json"), with_gpus()),
                                      std::pair(with_gpus(), simulated("epyc-7742-8gpu-nps4.json"))}) {
    const auto foreign = between(planned, here);
    EXPECT_THAT(foreign, Contains(HasSubstr("cores: ")));
    EXPECT_THAT(foreign, testing::Not(Contains(AnyOf(HasSubstr("of rank"), HasSubstr("quota")))));
  }
}

TEST(PlanDifferences, SmtOff) {
  Topology off = with_gpus();
  for (Core& core : off.cores) core.cpus = {core.cpus.first()};
  off.cpus = {};
  for (const Core& core : off.cores) off.cpus |= core.cpus;
  off.allowed_cpus = off.cpus;
  const auto differences = between(with_gpus(), off);
  EXPECT_THAT(differences, Contains("PUs: 32 in the plan, 16 here (SMT is off here)"));
  EXPECT_THAT(differences, Contains(AllOf(HasSubstr("1,3,5"), HasSubstr("are offline here"))));
}

TEST(PlanDifferences, TheKernelsOnlineSet) {
  const Topology whole = topology_of(own_machine("qemu-2ht.xml"));
  const Topology offline = topology_of(own_machine("qemu-2ht-offline2,5.xml"));
  EXPECT_THAT(between(whole, offline),
              UnorderedElementsAre("PUs: 8 in the plan, 6 here", "CPUs: 0-7 in the plan, 0-1,3-4,6-7 here",
                                   "CPUs 2,5 are offline here, and were online in the plan",
                                   HasSubstr("CPU 2 of rank 1's training is not allowed here (2: offline)")));
  EXPECT_THAT(between(offline, whole), Contains("CPUs 2,5 are online here, and were not in the plan"));
}

TEST(PlanDifferences, CpusAndNodesTakenAway) {
  Machine less = all_of(with_gpus());
  less.allowed.cpus = parse_cpu_list("0-27", "test");
  less.allowed.mems = NodeSet{Node{0}};
  EXPECT_THAT(plan_differences(plan_on(all_of(with_gpus()), 2), less),
              ElementsAre(HasSubstr("28,30 of rank 1's optimizer are not allowed here"),
                          HasSubstr("NUMA node 1 of rank 1's optimizer is not allowed here")));
}

TEST(PlanDifferences, AnyOtherQuotaAndATighterMemoryLimit) {
  Machine node = all_of(with_gpus());
  node.allowed.memory_bytes = 64ULL << 30;
  const Plan plan = plan_on(node, 2);
  Machine tighter = node;
  tighter.allowed.cpu_quota = 7.5;
  tighter.allowed.cpu_quota_path = "/sys/fs/cgroup/cpu.max";
  tighter.allowed.memory_bytes = 32ULL << 30;
  tighter.allowed.memory_path = "/sys/fs/cgroup/memory.max";
  EXPECT_THAT(plan_differences(plan, tighter),
              ElementsAre("CPU quota: none in the plan, 7.5 CPUs' worth here (/sys/fs/cgroup/cpu.max)",
                          "memory limit: 64 GiB in the plan, 32 GiB here (/sys/fs/cgroup/memory.max)"));
  EXPECT_THAT(plan_differences(plan_on(tighter, 2), node),
              ElementsAre("CPU quota: 7.5 CPUs' worth in the plan, none here"))
      << "more memory is no difference";
}

TEST(PlanDifferences, GpusMovedGoneOrHidden) {
  Topology moved = with_gpus();
  std::swap(moved.gpus[0].pci_address, moved.gpus[1].pci_address);
  EXPECT_THAT(between(with_gpus(), moved),
              ElementsAre("GPU 0000:30:00.0 of rank 0: on node 0 in the plan, on node 1 here",
                          "GPU 0000:40:00.0 of rank 1: on node 1 in the plan, on node 0 here"));
  Topology less = with_gpus();
  less.gpus[0].usable = false;
  less.gpus[0].why_unusable = kHiddenByDriver;
  less.gpus.pop_back();
  EXPECT_THAT(between(with_gpus(), less),
              ElementsAre("GPU 0000:30:00.0 of rank 0 cannot be used: its driver does not show it here",
                          "GPU 0000:40:00.0 of rank 1 is not here"));
}

TEST(PlanDifferences, GpusOfOtherSlotsMayBeLeftOut) {
  Topology other = with_gpus();
  other.gpus[0].pci_address = "0000:a0:00.0";
  other.gpus[1].node = Node{0};
  const Plan plan = plan_on(all_of(with_gpus()), 2);
  EXPECT_THAT(plan_differences(plan, all_of(other)), testing::SizeIs(2));
  EXPECT_THAT(plan_differences(plan, all_of(other), GpusOfRanks::left_out), IsEmpty());
}

TEST(PlanDifferences, GpusOfOneNodeNearOtherCpus) {
  Plan plan = plan_on(all_of(with_gpus()), 2);
  const Machine here = all_of(with_gpus());
  ASSERT_TRUE(plan.ranks[0].gpu);
  plan.ranks[0].gpu->cpus = {};
  EXPECT_THAT(plan_differences(plan, here), IsEmpty()) << "the plan does not say it";
  plan.ranks[0].gpu->cpus = parse_cpu_list("0-3", "test");
  EXPECT_THAT(plan_differences(plan, here),
              ElementsAre(format_text("GPU 0000:30:00.0 of rank 0: near CPUs "
                                      "0-3 in the plan, near {} here",
                                      print(here.topology.gpus[0].local_cpus))));
}

}  // namespace
}  // namespace zf
