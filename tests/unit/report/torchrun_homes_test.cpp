// Compares with what torchrun 2.13 gives (read in torch/numa/binding.py).
#include "report/torchrun_homes.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../machine/make_topology.hpp"

namespace zf {
namespace {

using testing::ElementsAre;

/// Returns two packages of two nodes of two L3 groups of 4 cores, and two GPUs on each of the nodes 1 and 2.
Topology four_nodes() {
  Topology topology =
      make_topology({.packages = 2, .nodes_per_package = 2, .l3_per_node = 2, .cores_per_l3 = 4});
  for (const int node : {1, 1, 2, 2}) {
    const auto at = static_cast<std::size_t>(node);
    topology.gpus.push_back(
        {std::to_string(topology.gpus.size()), "a GPU", topology.nodes[at].cpus, topology.nodes[at].id});
  }
  return topology;
}

/// Returns a plan for the first ranks of these CPUs, rank i on the i-th GPU.
Plan plan_on(const Topology& topology, int ranks, std::string_view allowed) {
  Plan plan;
  plan.allocation.cpus = parse_cpu_list(allowed, "test");
  for (int rank = 0; rank < ranks; ++rank) {
    const Gpu& gpu = topology.gpus[static_cast<std::size_t>(rank)];
    plan.ranks.emplace_back().rank = rank;
    plan.ranks.back().gpu = RankGpu{gpu.pci_address, gpu.node, gpu.local_cpus, {}};
  }
  return plan;
}

/// Returns the launchers with their homes, or with the refusal.
std::vector<std::string> words_on(const Topology& topology, const Plan& plan) {
  std::vector<std::string> all;
  for (const LauncherHomes& one : homes_by_torchrun(plan, topology)) {
    std::string words = one.launcher.substr(one.launcher.find('=') + 1) + ":";
    for (const CpuSet& home : one.homes) words += " " + print(home);
    all.push_back(words + one.refusal);
  }
  return all;
}

TEST(TorchrunHomes, EachModeOnAWholeMachine) {
  const Topology topology = four_nodes();
  EXPECT_THAT(words_on(topology, plan_on(topology, 4, "0-31")),
              ElementsAre("node: 8-15 8-15 16-23 16-23", "socket: 0-15 0-15 16-31 16-31",
                          "exclusive|core-complex: 8-11 12-15 16-19 20-23"));
}

TEST(TorchrunHomes, ExclusiveGivesTheFirstGpusTheOddCores) {
  const Topology topology = four_nodes();
  EXPECT_THAT(words_on(topology, plan_on(topology, 4, "0-8,10-31"))[2],
              "exclusive: 8,10-12 13-15 16-19 20-23");
  EXPECT_THAT(words_on(topology, plan_on(topology, 1, "0-31"))[2], "exclusive|core-complex: 8-11")
      << "the other GPU of the node has its share, though no rank";
  EXPECT_THAT(words_on(topology, plan_on(topology, 2, "0-8"))[2],
              "exclusive:1 allowed core of node 1 is too few for 2 GPUs");
}

TEST(TorchrunHomes, ExclusiveCountsSiblingsAsOneCore) {
  Topology topology =
      make_topology({.cores_per_l3 = 4, .pus_per_core = 2, .numbering = Numbering::interleaved});
  for (const char* address : {"0", "1"}) topology.gpus.push_back({address, "", topology.cpus, Node{0}});
  EXPECT_THAT(words_on(topology, plan_on(topology, 2, "0-7"))[1], "exclusive: 0-1,4-5 2-3,6-7");
}

TEST(TorchrunHomes, CoreComplexTakesTheGroupWithMostAllowedCpusFirst) {
  const Topology topology = four_nodes();
  EXPECT_THAT(words_on(topology, plan_on(topology, 4, "0-8,10-31"))[3],
              "core-complex: 12-15 8,10-11 16-19 20-23");
  EXPECT_THAT(words_on(topology, plan_on(topology, 2, "0-11,16-31"))[0], "node|core-complex: 8-11 8-11")
      << "in turn";
}

TEST(TorchrunHomes, WhatItCannotDoIsSaid) {
  Topology topology = four_nodes();
  EXPECT_THAT(words_on(topology, plan_on(topology, 1, "8-15"))[1],
              "socket:no CPU of node 0 is allowed, and it looks at the first one of each node");
  EXPECT_THAT(
      words_on(topology, plan_on(topology, 1, "0-7")),
      ElementsAre("node|socket|exclusive|core-complex:no CPU of node 1, where the GPU of rank 0 is, is "
                  "allowed"));
  topology.l3_groups.clear();
  EXPECT_THAT(words_on(topology, plan_on(topology, 1, "0-31"))[3], "core-complex:no L3 cache is known");
}

}  // namespace
}  // namespace zf
