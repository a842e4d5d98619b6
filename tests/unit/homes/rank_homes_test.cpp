#include "homes/rank_homes.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../topology/machines.hpp"
#include "../topology/make_topology.hpp"
#include "homes/split.hpp"
#include "random_machine.hpp"

namespace zf {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// Returns a machine with everything allowed and a GPU on each of these nodes.
Machine machine(const MachineShape& shape, const std::vector<int>& gpu_nodes) {
  Machine machine;
  machine.topology = make_topology(shape);
  for (const int index : gpu_nodes) {
    const NumaNode& node = machine.topology.nodes.at(static_cast<std::size_t>(index));
    machine.topology.gpus.push_back(
        {std::to_string(machine.topology.gpus.size()), "a GPU", node.cpus, node.id});
  }
  machine.allowed = make_allowed(machine.topology);
  return machine;
}

RankHomes placed(const Machine& machine, int ranks) {
  return rank_homes(machine, rank_gpus({}, machine.topology, ranks));
}

std::vector<std::string> cpus_of(const RankHomes& ranks) {
  std::vector<std::string> lists;
  for (const Home& home : ranks.homes) lists.push_back(print(home.cpus()));
  return lists;
}

TEST(RankHomes, LieNearTheirGpus) {
  const Machine node = machine({.packages = 2, .cores_per_l3 = 4}, {1, 0});
  const RankHomes ranks = placed(node, 2);
  EXPECT_THAT(cpus_of(ranks), ElementsAre("4-7", "0-3"));
  EXPECT_EQ(ranks.homes[0].gpu, (RankGpu{"0", Node{1}, parse_cpu_list("4-7", "test"), {}}));
  EXPECT_THAT(ranks.notes, IsEmpty());
}

TEST(RankHomes, LieNearAnyOfSeveralGpus) {
  const Machine eight = machine({.packages = 2, .cores_per_l3 = 8}, {0, 0, 0, 0, 1, 1, 1, 1});
  const auto with = [&](int ranks, GpuShare share, const Machine& node) {
    return rank_homes(node, rank_gpus({}, node.topology, ranks, share));
  };
  EXPECT_THAT(cpus_of(with(4, {}, eight)), ElementsAre("0-1,8-9", "2-3,10-11", "4-5,12-13", "6-7,14-15"))
      << "all near the first package";
  EXPECT_THAT(cpus_of(with(4, {2, 0}, eight)), ElementsAre("0-3", "4-7", "8-11", "12-15"));
  EXPECT_THAT(with(4, {2, 0}, eight).notes, IsEmpty());
  const Machine in_turn = machine({.packages = 2, .cores_per_l3 = 8}, {0, 1, 0, 1});
  EXPECT_THAT(cpus_of(with(2, {2, 0}, in_turn)), ElementsAre("0-7", "8-15"));
  EXPECT_THAT(with(2, {2, 0}, in_turn).notes, IsEmpty());
  const Machine six = machine({.packages = 2, .cores_per_l3 = 6}, {0, 0, 0, 1, 1, 1});
  EXPECT_THAT(cpus_of(with(12, {0, 2}, six)),
              ElementsAre("0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11"));
}

TEST(RankHomes, HaveAllPlainMemoryWhereTheNodesContradict) {
  Machine node = machine({.packages = 2, .cores_per_l3 = 4}, {1, 0});
  node.topology.gpus[0].uuid = "GPU-1";
  EXPECT_EQ(print(placed(node, 2).homes[0].mems), "1");
  EXPECT_EQ(placed(node, 2).homes[0].gpu->uuid, "GPU-1");
  node.topology.nodes_contradict = true;
  for (const Home& home : placed(node, 2).homes) EXPECT_EQ(print(home.mems), "0-1");
  node.allowed.mems = {Node{1}};
  for (const Home& home : placed(node, 2).homes) EXPECT_EQ(print(home.mems), "1") << "--mems, or a cpuset";
}

TEST(RankHomes, AGpuOfAWholePackageIsNearAllItsNodes) {
  Machine node = machine({.packages = 2, .nodes_per_package = 2, .cores_per_l3 = 4}, {2, 0});
  for (std::size_t gpu = 0; gpu < 2; ++gpu) {
    node.topology.gpus[gpu].local_cpus = parse_cpu_list(gpu == 0 ? "8-15" : "0-7", "test");
    node.topology.gpus[gpu].node.reset();
  }
  EXPECT_THAT(cpus_of(placed(node, 2)), ElementsAre("8-15", "0-7"));
  EXPECT_THAT(placed(node, 2).notes, IsEmpty());
}

TEST(RankHomes, AGpuOfUnknownPlaceIsSaidAndMovesNobody) {
  Machine node = machine({.packages = 2, .cores_per_l3 = 4}, {1, 0});
  for (Gpu& gpu : node.topology.gpus) {
    gpu.local_cpus = node.topology.cpus;
    gpu.node.reset();
  }
  const RankHomes ranks = placed(node, 2);
  EXPECT_THAT(cpus_of(ranks), ElementsAre("0-3", "4-7"));
  EXPECT_THAT(
      ranks.notes,
      ElementsAre(
          "the homes of ranks 0,1 were chosen by size alone: the packages of their GPUs are not known"));
}

TEST(RankHomes, FarFromTheGpuIsSaid) {
  Machine node = machine({.packages = 2, .cores_per_l3 = 4}, {1});
  node.allowed = make_allowed(node.topology, "0-3");
  EXPECT_THAT(
      placed(node, 1).notes,
      ElementsAre(
          "rank 0 is far from its GPU 0: its home has none of the CPUs near the GPU (CPUs 4-7 on node 1)"));
}

TEST(RankHomes, AQuotaSizesTheHomesAndSaysSo) {
  Machine node = machine({.packages = 2, .cores_per_l3 = 8, .pus_per_core = 2}, {});
  node.allowed.cpu_quota = 7.5;
  node.allowed.cpu_quota_path = "/sys/fs/cgroup/cpu.max";
  const RankHomes ranks = placed(node, 2);
  EXPECT_THAT(cpus_of(ranks), ElementsAre("0-5", "16-21")) << "three cores each";
  EXPECT_THAT(ranks.notes,
              ElementsAre("the CPU quota of 7.5 (/sys/fs/cgroup/cpu.max) keeps 3 cores per rank busy: "
                          "10 allowed cores are left idle"));
}

TEST(RankHomes, AQuotaLeavesTwoCoresToKeepTheSidesApart) {
  Machine node = machine({.packages = 2, .cores_per_l3 = 8}, {});
  node.allowed.cpu_quota = 0.5;
  EXPECT_THAT(cpus_of(placed(node, 2)), ElementsAre("0-1", "8-9"));
  EXPECT_THAT(placed(node, 2).notes, ElementsAre(HasSubstr("is less than the 2 cores per rank")));
  node.allowed = make_allowed(node.topology, "3,9");
  node.allowed.cpu_quota = 0.5;
  EXPECT_THAT(cpus_of(placed(node, 2)), ElementsAre("3", "9"));
  EXPECT_THAT(placed(node, 2).notes, IsEmpty()) << "nothing was left out";
}

TEST(RankHomes, AHomeThatAQuotaCutsOffANodeForgetsItsMemory) {
  Machine node = machine({.packages = 2, .cores_per_l3 = 4}, {});
  EXPECT_EQ(print(placed(node, 1).homes[0].mems), "0-1");
  node.allowed.cpu_quota = 4;
  EXPECT_EQ(print(placed(node, 1).homes[0].mems), "0");
}

TEST(RankHomes, DeepspeedsHomesHaveTheirGpusToo) {
  const Machine node = machine({.packages = 2, .cores_per_l3 = 4}, {1, 0});
  const RankHomes ranks = deepspeed_rank_homes(node, rank_gpus({}, node.topology, 2));
  EXPECT_THAT(cpus_of(ranks), ElementsAre("0-3", "4-7"));
  EXPECT_EQ(ranks.homes[0].gpu, (RankGpu{"0", Node{1}, parse_cpu_list("4-7", "test"), {}}));
  EXPECT_THAT(
      ranks.notes,
      ElementsAre(
          "rank 0 is far from its GPU 0: its home has none of the CPUs near the GPU (CPUs 4-7 on node 1)",
          "rank 1 is far from its GPU 1: its home has none of the CPUs near the GPU (CPUs 0-3 on node 0)"));
}

TEST(RankHomes, EachMaskLeavesOutItsIsolatedCpusUnlessItHasNoOthers) {
  Machine node = machine({.packages = 2, .cores_per_l3 = 4}, {});
  node.isolated.isolated = parse_cpu_list("3-7", "test");
  const RankGpus gpus = rank_gpus({}, node.topology, 2);
  const std::vector<CpuSet> masks{parse_cpu_list("0-3", "test"), parse_cpu_list("4-7", "test")};
  const RankHomes ranks = rank_homes_within(node, gpus, masks);
  EXPECT_THAT(cpus_of(ranks), ElementsAre("0-2", "4-7"));
  EXPECT_THAT(ranks.notes, ElementsAre(HasSubstr("CPUs 4-7 are isolated")));
  node.keeps_isolated = true;
  EXPECT_THAT(cpus_of(rank_homes_within(node, gpus, masks)), ElementsAre("0-3", "4-7"));
}

/// Returns how many cores train that are farther from the GPU than some core of the pool.
int far_cores_in_training(const Machine& node, const RankHomes& ranks) {
  int count = 0;
  for (const Home& home : ranks.homes) {
    if (!home.gpu || home.shared) continue;
    const RankSplit split = split_home(home, control_shape(Control::half));
    const bool pool_is_near = split.optimizer.intersects(home.gpu->cpus & node.allowed.cpus);
    for (const HomeCore& core : home.cores) {
      if (core.cpus.intersects(split.training) && !core.cpus.intersects(home.gpu->cpus))
        count += pool_is_near;
    }
  }
  return count;
}

TEST(RankHomes, NearCoresTrainAlsoIfTheGpuIsNearAPackage) {
  Machine node;
  node.topology = topology_of(own_machine("gpus-of-a-package.xml"));
  node.allowed = make_allowed(node.topology, "4-31");
  const RankHomes ranks = placed(node, 2);
  for (const Home& home : ranks.homes) EXPECT_TRUE(home.cpus().intersects(home.gpu->cpus));
  EXPECT_EQ(far_cores_in_training(node, ranks), 0);
}

TEST(RankHomes, NearCoresTrainWhateverTheMask) {
  Machine node;
  node.topology = topology_of(own_machine("gpus-of-a-package.xml"));
  int mixed = 0;
  for (unsigned seed = 0; seed < 288 / ZF_FEWER; ++seed) {
    Dice dice(seed);
    node.allowed = make_allowed(node.topology);
    node.allowed.cpus = random_cpus(node.topology.cpus, dice);
    const int ranks = dice(1, std::min(4, static_cast<int>(node.allowed.cpus.size())));
    const RankHomes homes = placed(node, ranks);
    EXPECT_EQ(far_cores_in_training(node, homes), 0) << seed << ": " << print(node.allowed.cpus);
    for (const Home& home : homes.homes) {
      mixed += home.gpu && home.cpus().intersects(home.gpu->cpus) && !home.gpu->cpus.contains(home.cpus());
    }
  }
  EXPECT_GT(mixed, 20 / ZF_FEWER);
}

}  // namespace
}  // namespace zf
