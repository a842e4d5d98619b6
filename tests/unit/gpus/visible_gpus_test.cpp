#include "gpus/visible_gpus.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../topology/make_topology.hpp"
#include "topology/gpu_rules.hpp"

namespace zf {
namespace {

using testing::HasSubstr;

using Variables = std::map<std::string, std::string>;

/// Returns a node of eight GPUs, numbered in PCI order, marked as this machine.
Topology node_of_eight_gpus() {
  Topology topology = make_topology({.packages = 2, .cores_per_l3 = 16});
  topology.is_this_machine = true;
  for (int gpu = 0; gpu < 8; ++gpu) {
    Gpu one{"0000:" + std::to_string(10 * (gpu + 1)) + ":00.0", "NVIDIA H100", {}, {}};
    one.vendor_id = kNvidia;
    one.minor = gpu;
    one.uuid = "GPU-" + std::to_string(gpu) + "abc";
    topology.gpus.push_back(one);
  }
  return topology;
}

/// Returns a plan of ranks that have these GPUs.
PlannedGpus planned(const std::vector<int>& gpus) {
  PlannedGpus ranks;
  for (const int gpu : gpus) {
    const Gpu one = node_of_eight_gpus().gpus[static_cast<std::size_t>(gpu)];
    ranks.emplace_back(RankGpu{one.pci_address, {}, {}, one.minor, one.uuid});
  }
  return ranks;
}

/// Returns what a rank says, and checks that a process that reads the GPUs of the node says the same.
VisibleGpus compared(const Variables& variables, const PlannedGpus& ranks) {
  const VisibleGpus said = compare_visible_gpus(Environment(variables), ranks);
  const VisibleGpus on_node = compare_visible_gpus(Environment(variables), ranks, node_of_eight_gpus());
  EXPECT_EQ(said.difference, on_node.difference);
  EXPECT_EQ(said.not_compared, on_node.not_compared);
  return said;
}

void expect_nothing(const VisibleGpus& said) {
  EXPECT_EQ(said.difference, "");
  EXPECT_EQ(said.not_compared, "");
}

TEST(VisibleGpus, OthersThanThePlansAreNamed) {
  EXPECT_EQ(compared({{"CUDA_VISIBLE_DEVICES", "6,7"}}, planned({0, 1})).difference,
            "CUDA_VISIBLE_DEVICES lists 6,7, and the plan's GPUs are /dev/nvidia0,1");
  EXPECT_EQ(compared({{"SLURM_STEP_GPUS", "6,7"}}, planned({0, 1})).difference,
            "SLURM_STEP_GPUS lists 6,7, and the plan's GPUs are /dev/nvidia0,1");
  EXPECT_EQ(
      compared({{"CUDA_VISIBLE_DEVICES", "0,1"}, {"SLURM_STEP_GPUS", "0,1"}}, planned({6, 7})).difference,
      "SLURM_STEP_GPUS lists 0,1, and the plan's GPUs are /dev/nvidia6,7");
  EXPECT_THAT(compared({{"CUDA_VISIBLE_DEVICES", "GPU-6abc,GPU-7abc"}}, planned({0, 1})).difference,
              HasSubstr("lists GPU-6abc,GPU-7abc, and"));
  EXPECT_THAT(compared({{"CUDA_VISIBLE_DEVICES", "7"}}, planned({0})).difference,
              HasSubstr("the plan's GPU is /dev/nvidia0"));
}

TEST(VisibleGpus, ThePlansOwnAreNoMatter) {
  expect_nothing(compared({}, planned({0, 1})));
  expect_nothing(compared({{"CUDA_VISIBLE_DEVICES", "6,7"}}, planned({6, 7})));
  expect_nothing(compared({{"CUDA_VISIBLE_DEVICES", "6,7,0"}}, planned({6, 7})));
  expect_nothing(compared({{"CUDA_VISIBLE_DEVICES", "GPU-6,gpu-7ABC"}}, planned({6})));
  expect_nothing(compared({{"SLURM_STEP_GPUS", "7,6"}}, planned({6, 7})));
  expect_nothing(compared({{"CUDA_VISIBLE_DEVICES", ""}}, planned({6, 7})));
  expect_nothing(compared({{"CUDA_VISIBLE_DEVICES", "6,7"}}, PlannedGpus(2)));
  expect_nothing(compared({{"CUDA_VISIBLE_DEVICES", "0,1"}, {"SLURM_STEP_GPUS", "6,7"}}, planned({6, 7})));
}

TEST(VisibleGpus, AShortListMayBeOneRanksOwn) {
  for (const char* const name : {"CUDA_VISIBLE_DEVICES", "SLURM_STEP_GPUS"}) {
    EXPECT_EQ(compared({{name, "5"}}, planned({0, 1})).not_compared,
              std::string(name) +
                  " lists 1 GPU, fewer than the plan's 2, so it may be one rank's own: it is not compared "
                  "with the plan's "
                  "GPUs");
  }
}

TEST(VisibleGpus, BesideAShortListTheListOfTheStepCounts) {
  const Variables task{{"CUDA_VISIBLE_DEVICES", "0"}, {"SLURM_STEP_GPUS", "6,7"}};
  expect_nothing(compared(task, planned({6, 7})));
  EXPECT_EQ(compared(task, planned({0, 1})).difference,
            "SLURM_STEP_GPUS lists 6,7, and the plan's GPUs are /dev/nvidia0,1");
}

TEST(VisibleGpus, LowNumbersMayCountTheGpusOfAContainer) {
  EXPECT_EQ(
      compared({{"CUDA_VISIBLE_DEVICES", "0,1"}}, planned({6, 7})).not_compared,
      "CUDA_VISIBLE_DEVICES lists 0,1, and the plan's GPUs are /dev/nvidia6,7: these cannot be compared, "
      "because such low numbers may count the GPUs of a container");
  Topology container = node_of_eight_gpus();
  for (std::size_t gpu = 0; gpu < 6; ++gpu) container.gpus[gpu].usable = false;
  const Environment two(Variables{{"CUDA_VISIBLE_DEVICES", "0,1"}});
  expect_nothing(compare_visible_gpus(two, planned({6, 7}), container));
  EXPECT_NE(compare_visible_gpus(two, planned({7, 6}), container).difference, "")
      << "the driver hides others";
}

TEST(VisibleGpus, TheListOfAContainerMustHaveThePlans) {
  const auto in_container = [](const std::string& list, const PlannedGpus& ranks) {
    return compare_visible_gpus(Environment(Variables{{"NVIDIA_VISIBLE_DEVICES", list}}), ranks);
  };
  expect_nothing(in_container("GPU-7abc,GPU-6abc", planned({6, 7})));
  EXPECT_THAT(in_container("GPU-7abc,GPU-6abc", planned({0, 7})).difference, HasSubstr("/dev/nvidia0,7"));
  for (const char* const word : {"all", "void", "none", "6,7"})
    expect_nothing(in_container(word, planned({0})));
  PlannedGpus older = planned({6});
  older[0]->uuid.clear();
  EXPECT_THAT(in_container("GPU-6abc", older).not_compared,
              HasSubstr("the UUID of 0000:70:00.0 is not known"));
  const Environment here(Variables{{"NVIDIA_VISIBLE_DEVICES", "GPU-6abc"}});
  expect_nothing(compare_visible_gpus(here, older, node_of_eight_gpus()));
}

TEST(VisibleGpus, WhatThePlanDoesNotSayIsNotCompared) {
  PlannedGpus older = planned({0, 1});
  for (auto& gpu : older) gpu = RankGpu{gpu->pci_address};
  const auto said = [&](const char* list) {
    return compare_visible_gpus(Environment(Variables{{"CUDA_VISIBLE_DEVICES", list}}), older).not_compared;
  };
  EXPECT_EQ(said("6,7"),
            "CUDA_VISIBLE_DEVICES lists 6,7, and the plan's GPUs are 0000:10:00.0 and 0000:20:00.0: these "
            "cannot be "
            "compared, because the plan does not say which GPU \"6\" is");
  EXPECT_THAT(said("GPU-6abc,GPU-7abc"), HasSubstr("which GPU \"GPU-6abc\" is"));
  const Environment six(Variables{{"CUDA_VISIBLE_DEVICES", "6,7"}});
  EXPECT_NE(compare_visible_gpus(six, older, node_of_eight_gpus()).difference, "") << "the node says it";
  const Environment mig(Variables{{"CUDA_VISIBLE_DEVICES", "MIG-5c89,MIG-5c90"}});
  EXPECT_THAT(compare_visible_gpus(mig, planned({0, 1})).not_compared,
              HasSubstr("which GPU \"MIG-5c89\" is"));
}

TEST(VisibleGpus, DeviceFilesInAnotherOrderThanPciSayNothingOfCudasNumbers) {
  Topology a100 = node_of_eight_gpus();  // as on a DGX A100
  for (std::size_t gpu = 0; gpu < 8; ++gpu) a100.gpus[gpu].minor = std::vector{2, 3, 0, 1, 6, 7, 4, 5}[gpu];
  PlannedGpus ranks;
  for (std::size_t gpu = 4; gpu < 7; ++gpu)
    ranks.emplace_back(RankGpu{a100.gpus[gpu].pci_address, {}, {}, a100.gpus[gpu].minor});
  const Environment same(Variables{{"CUDA_VISIBLE_DEVICES", "4,5,6"}});
  EXPECT_THAT(compare_visible_gpus(same, ranks).not_compared, HasSubstr("CUDA counts in PCI order"));
  expect_nothing(compare_visible_gpus(same, ranks, a100));
  const Environment slurm(Variables{{"SLURM_STEP_GPUS", "4,6,7"}});
  expect_nothing(compare_visible_gpus(slurm, ranks));
  expect_nothing(compare_visible_gpus(slurm, ranks, a100));
}

TEST(VisibleGpus, OfAnotherMachineNothingIsSaid) {
  Topology elsewhere = node_of_eight_gpus();
  elsewhere.is_this_machine = false;
  expect_nothing(compare_visible_gpus(Environment(Variables{{"CUDA_VISIBLE_DEVICES", "6,7"}}),
                                      planned({2, 3}), elsewhere));
}

}  // namespace
}  // namespace zf
