#include "where/process_gpus.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../topology/make_topology.hpp"
#include "base/error.hpp"

namespace zf {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// Returns a machine with two GPUs. All its CPUs are allowed.
Machine two_gpus() {
  Machine machine;
  machine.topology = make_topology({.packages = 2, .cores_per_l3 = 8});
  machine.topology.is_this_machine = true;
  for (const char* bus : {"10", "20"}) {
    Gpu gpu;
    gpu.pci_address = "0000:" + std::string(bus) + ":00.0";
    gpu.local_cpus = machine.topology.cpus;
    machine.topology.gpus.push_back(gpu);
  }
  machine.allowed.cpus = machine.topology.cpus;
  return machine;
}

ProcessGpus gpus_of(std::optional<int> rank, std::optional<int> ranks,
                    const std::map<std::string, std::string>& variables, std::optional<ListOf> list_of = {},
                    const Machine& machine = two_gpus()) {
  WhereRequest request;
  request.rank = rank;
  request.ranks = ranks;
  request.list_of = list_of;
  return process_gpus(request, machine, Environment(variables), Environment(variables));
}

TEST(ProcessGpus, AListWithAnEntryForEachRankIsShared) {
  const ProcessGpus gpus = gpus_of(0, 2, {{"CUDA_VISIBLE_DEVICES", "1,0"}});
  EXPECT_THAT(gpus.pci, ElementsAre("0000:20:00.0", "0000:10:00.0"));
  EXPECT_TRUE(gpus.are_shared);
}

TEST(ProcessGpus, AShorterListIsThisRanksUnlessTheLauncherHasIt) {
  const ProcessGpus gpus = gpus_of(0, 2, {{"CUDA_VISIBLE_DEVICES", "1"}});
  EXPECT_THAT(gpus.pci, ElementsAre("0000:20:00.0"));
  EXPECT_FALSE(gpus.are_shared);
}

TEST(ProcessGpus, AListOfRayIsTheProcessesHoweverLong) {
  const ProcessGpus gpus = gpus_of(0, 2, {{"CUDA_VISIBLE_DEVICES", "0,1"}}, ListOf::process);
  EXPECT_EQ(gpus.pci.size(), 2u);
  EXPECT_FALSE(gpus.are_shared);
  EXPECT_THAT(gpus_of(0, 2, {}, ListOf::others).why_unknown, HasSubstr("other workers here may have GPUs"));
  EXPECT_EQ(gpus_of(0, 2, {}, ListOf::nothing).why_unknown, "");
}

TEST(ProcessGpus, SlurmsNumbersOfATaskNameNoGpu) {
  const ProcessGpus gpus = gpus_of(0, 2, {{"CUDA_VISIBLE_DEVICES", "0"}, {"SLURM_STEP_GPUS", "0,1"}});
  EXPECT_THAT(gpus.pci, IsEmpty());
  EXPECT_THAT(gpus.note, HasSubstr("Slurm may count the GPUs of each task from 0"));
}

TEST(ProcessGpus, WhatDeviceNodesLeaveIsTheJobs) {
  Machine machine = two_gpus();
  machine.topology.gpus[0].usable = false;
  machine.topology.gpus[0].why_unusable = "/dev/nvidia0 is not here";
  const ProcessGpus gpus = gpus_of(0, 1, {}, std::nullopt, machine);
  EXPECT_THAT(gpus.pci, ElementsAre("0000:20:00.0"));
  EXPECT_TRUE(gpus.by_device_nodes);
  EXPECT_EQ(hidden_gpu(machine), std::nullopt);
  machine.topology.gpus[0].why_unusable = kHiddenByDriver;
  EXPECT_THROW(gpus_of(0, 1, {}, std::nullopt, machine), Error);
  EXPECT_THAT(gpus_of(0, 2, {}, std::nullopt, machine).pci, IsEmpty());
}

TEST(ProcessGpus, NothingIsGuessedWithoutANumberOfRanks) {
  EXPECT_THAT(gpus_of({}, {}, {}).pci, IsEmpty());
  EXPECT_EQ(gpus_of({}, {}, {{"CUDA_VISIBLE_DEVICES", "0,1"}}).why_none, "CUDA_VISIBLE_DEVICES lists 2 GPUs");
  EXPECT_THAT(gpus_of({}, {}, {{"CUDA_VISIBLE_DEVICES", "1"}}).pci, ElementsAre("0000:20:00.0"));
}

}  // namespace
}  // namespace zf
