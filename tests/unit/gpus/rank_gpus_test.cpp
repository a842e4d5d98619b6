#include "gpus/rank_gpus.hpp"
#include "gpus/moved_gpus.hpp"
#include "machine/rank_count.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../os/tree.hpp"
#include "../topology/make_topology.hpp"
#include "base/format.hpp"
#include "gpus/live_gpus.hpp"

namespace zf {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

using Variables = std::map<std::string, std::string>;

/// Returns two packages with two GPUs each, marked as this machine.
Topology four_gpus() {
  Topology topology = make_topology({.packages = 2, .cores_per_l3 = 8});
  topology.is_this_machine = true;
  for (const char* bus : {"04", "3b", "81", "c1"}) {
    const NumaNode& node = topology.nodes[topology.gpus.size() / 2];
    topology.gpus.push_back(
        {"0000:" + std::string(bus) + ":00.0", "NVIDIA H200", node.cpus, node.id, "GPU-" + std::string(bus)});
  }
  return topology;
}

/// Returns the bus of each rank's GPU, "-" if it is unknown.
std::vector<std::string> buses(const RankGpus& ranks) {
  std::vector<std::string> list;
  for (const auto& gpu : ranks.gpus) list.push_back(gpu ? gpu->pci_address.substr(5, 2) : "-");
  return list;
}

RankGpus of(const Variables& variables, int ranks, const Topology& topology = four_gpus()) {
  return rank_gpus(Environment(variables), topology, ranks);
}

TEST(RankGpus, PciOrderWhereNobodySaysOtherwise) {
  EXPECT_THAT(buses(of({}, 4)), ElementsAre("04", "3b", "81", "c1"));
  EXPECT_THAT(buses(of({}, 2)), ElementsAre("04", "3b"));
  EXPECT_THAT(of({}, 4).notes, IsEmpty());
}

TEST(RankGpus, TheDriversOwnNumbersComeBeforePciOrder) {
  Topology topology = four_gpus();
  for (std::size_t i = 0; i < 4; ++i) topology.gpus[i].framework_number = std::vector{2, 3, 0, 1}[i];
  EXPECT_THAT(buses(of({}, 4, topology)), ElementsAre("81", "c1", "04", "3b"));
  topology.gpus[0].framework_number.reset();
  EXPECT_THAT(buses(of({}, 4, topology)), ElementsAre("04", "3b", "81", "c1")) << "not all are numbered";
}

TEST(RankCount, AMachineGivenAsDataHasOneRankPerGpuToo) {
  Topology topology = four_gpus();
  topology.is_this_machine = false;
  const RankCount ranks = rank_count_of({}, Environment(Variables{{"SLURM_NTASKS_PER_NODE", "7"}}), topology);
  EXPECT_EQ(ranks.count, 4);
  EXPECT_EQ(ranks.source, "4 GPUs");
  topology.gpus.clear();
  EXPECT_EQ(rank_count_of({}, {}, topology).count, 1);
}

TEST(RankCount, OneSlurmTaskOnANodeOfGpusIsALauncher) {
  Topology topology = four_gpus();
  topology.is_this_machine = true;
  const auto count = [&](const Variables& variables) {
    return rank_count_of({}, Environment(variables), topology);
  };
  EXPECT_EQ(count({{"SLURM_NTASKS_PER_NODE", "1"}}).count, 4);
  EXPECT_EQ(rank_count_note(count({{"SLURM_NTASKS_PER_NODE", "1"}})),
            "4 ranks (4 GPUs; SLURM_NTASKS_PER_NODE=1 may count launchers; --ranks changes it)");
  const RankCount visible = count({{"SLURM_NTASKS_PER_NODE", "1"}, {"CUDA_VISIBLE_DEVICES", "0,2"}});
  EXPECT_EQ(visible.count, 2);
  EXPECT_EQ(visible.source, "CUDA_VISIBLE_DEVICES; SLURM_NTASKS_PER_NODE=1 may count launchers");
  for (const char* one : {"3", ""}) {
    const RankCount alone = count({{"SLURM_NTASKS_PER_NODE", "1"}, {"CUDA_VISIBLE_DEVICES", one}});
    EXPECT_EQ(alone.count, 1);
    EXPECT_EQ(alone.source, "SLURM_NTASKS_PER_NODE");
  }
  EXPECT_EQ(count({{"SLURM_NTASKS_PER_NODE", "2"}}).count, 2) << "as many as the user asked for";
  EXPECT_EQ(count({{"FLUX_JOB_SIZE", "1"}, {"FLUX_JOB_NNODES", "1"}}).count, 4)
      << "the same for a task of Flux";
  EXPECT_EQ(count({{"LOCAL_WORLD_SIZE", "1"}}).count, 1) << "torchrun counts ranks, not launchers";
  EXPECT_EQ(rank_count_note(count({})), "4 ranks (4 GPUs; --ranks changes it)");
  EXPECT_EQ(rank_count_note(rank_count_of(3, {}, topology)), "");
  topology.gpus.clear();
  EXPECT_EQ(count({{"SLURM_NTASKS_PER_NODE", "1"}}).source, "SLURM_NTASKS_PER_NODE");
  EXPECT_EQ(rank_count_note(count({})), "");
}

TEST(RankGpus, VisibleDevicesInTheirOwnOrder) {
  for (const char* name : {"CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"}) {
    EXPECT_THAT(buses(of({{name, "3,1"}}, 2)), ElementsAre("c1", "3b")) << name;
  }
  EXPECT_THAT(buses(of({{"CUDA_VISIBLE_DEVICES", "GPU-81,0"}}, 2)), ElementsAre("81", "04"));
}

TEST(RankGpus, HipCountsWithinWhatRocrLeaves) {
  const Variables both{{"ROCR_VISIBLE_DEVICES", "1,3,2"}, {"HIP_VISIBLE_DEVICES", "2,1"}};
  EXPECT_THAT(buses(of(both, 2)), ElementsAre("81", "c1"));
}

TEST(RankGpus, SlurmNumbersTheNodesGpusOrTheStepsOwn) {
  EXPECT_THAT(buses(of({{"SLURM_STEP_GPUS", "2,3"}}, 2)), ElementsAre("81", "c1"));
  EXPECT_THAT(buses(of({{"SLURM_JOB_GPUS", "2,3"}}, 2)), ElementsAre("81", "c1"));
  const auto visible = [](const char* cuda) {
    return of({{"SLURM_STEP_GPUS", "2,3"}, {"CUDA_VISIBLE_DEVICES", cuda}}, 2);
  };
  EXPECT_THAT(buses(visible("2,3")), ElementsAre("81", "c1")) << "ConstrainDevices=no";
  EXPECT_THAT(buses(visible("0,1")), ElementsAre("81", "c1")) << "ConstrainDevices=yes";
}

/// Returns GPUs as on a DGX A100: the driver numbers its device files in another order than PCI's.
Topology numbered_by_minor(const std::vector<std::optional<int>>& minors = {2, 3, 0, 1}) {
  Topology topology = four_gpus();
  for (std::size_t i = 0; i < minors.size(); ++i) topology.gpus[i].minor = minors[i];
  return topology;
}

TEST(RankGpus, SlurmNumbersDeviceFilesAndNotPciOrder) {
  const Topology a100 = numbered_by_minor();
  for (const char* name : {"SLURM_STEP_GPUS", "SLURM_JOB_GPUS"}) {
    EXPECT_THAT(buses(of({{name, "0,1"}}, 2, a100)), ElementsAre("81", "c1")) << name;
  }
  EXPECT_THAT(buses(of({{"SLURM_STEP_GPUS", "0,2"}}, 2, a100)), ElementsAre("04", "81"))
      << "the job's first GPU is the first of its own in PCI order";
  Topology hidden = a100;
  hidden.gpus[0].usable = false;
  EXPECT_THAT(buses(of({{"SLURM_STEP_GPUS", "0,3"}}, 2, hidden)), ElementsAre("3b", "81"));
  EXPECT_THAT(of({{"SLURM_STEP_GPUS", "0,7"}}, 2, a100).notes,
              ElementsAre(HasSubstr("names \"7\", but no GPU visible here is /dev/nvidia7")));
}

TEST(RankGpus, SlurmNumbersArePciOrderUnlessEveryMinorIsKnown) {
  const Topology partly = numbered_by_minor({2, 3, std::nullopt, 1});
  EXPECT_THAT(buses(of({{"SLURM_STEP_GPUS", "0,1"}}, 2, partly)), ElementsAre("04", "3b"));
}

TEST(RankGpus, VisibleDevicesCountThoseThatSlurmNamedByMinor) {
  const auto visible = [](const char* cuda, const char* step = "0,1") {
    return of({{"SLURM_STEP_GPUS", step}, {"CUDA_VISIBLE_DEVICES", cuda}}, 2, numbered_by_minor());
  };
  EXPECT_THAT(buses(visible("0,1", "2,3")), ElementsAre("04", "3b")) << "ConstrainDevices=yes";
  EXPECT_THAT(buses(visible("0,1", "0,1,2,3")), ElementsAre("04", "3b"))
      << "all of the node, counted either way";
  EXPECT_THAT(buses(visible("0,1")), ElementsAre("-", "-"))
      << "CUDA's first two of the node, or the step's, which are others";
  EXPECT_THAT(visible("0,1").notes.at(0), HasSubstr("which may count the node's GPUs or those of"));
}

TEST(RankGpus, ANumberThatTheStepDoesNotHaveIsSaid) {
  const RankGpus ranks = of({{"SLURM_STEP_GPUS", "1"}, {"CUDA_VISIBLE_DEVICES", "2"}}, 1);
  EXPECT_THAT(ranks.notes, ElementsAre(HasSubstr("names \"2\", which is not among SLURM_STEP_GPUS")));
}

TEST(RankGpus, ANumberThatMayCountEitherWayIsNotGuessed) {
  const RankGpus ranks = of({{"SLURM_STEP_GPUS", "1,2,3"}, {"CUDA_VISIBLE_DEVICES", "1,3"}}, 2);
  EXPECT_THAT(buses(ranks), ElementsAre("-", "c1"));
  EXPECT_THAT(ranks.notes, ElementsAre(HasSubstr("rank 0 is not known: CUDA_VISIBLE_DEVICES names \"1\"")));
}

TEST(RankGpus, AListOfOneTaskSaysNothingOfTheOthers) {
  const RankGpus ranks = of({{"CUDA_VISIBLE_DEVICES", "2"}, {"LOCAL_RANK", "1"}}, 3);
  EXPECT_THAT(buses(ranks), ElementsAre("-", "81", "-"));
  EXPECT_THAT(ranks.notes,
              ElementsAre(HasSubstr(
                  "the GPUs of ranks 0,2 are not known: CUDA_VISIBLE_DEVICES is set for the task")));
  const RankGpus numbered_anew =
      of({{"CUDA_VISIBLE_DEVICES", "0"}, {"SLURM_LOCALID", "1"}, {"SLURM_STEP_GPUS", "0,1"}}, 2);
  EXPECT_THAT(buses(numbered_anew), ElementsAre("-", "-")) << "the step's first GPU, or this task's";
  const RankGpus step = of({{"SLURM_LOCALID", "1"}, {"SLURM_STEP_GPUS", "2,3"}}, 3);
  EXPECT_THAT(buses(step), ElementsAre("-", "-", "-"))
      << "the step's list is that of all ranks, and too short";
}

TEST(RankGpus, MoreRanksThanGpusHaveNone) {
  const RankGpus ranks = of({}, 6);
  EXPECT_THAT(buses(ranks), testing::Each("-"));
  EXPECT_THAT(ranks.notes,
              ElementsAre(HasSubstr(
                  "the GPUs of ranks 0,1,2,3,4,5 are not known: this machine has 4 GPUs for 6 ranks")));
}

TEST(RankGpus, HiddenGpusAreNoMatter) {
  EXPECT_THAT(buses(of({{"CUDA_VISIBLE_DEVICES", ""}}, 2)), ElementsAre("-", "-"));
  EXPECT_THAT(of({{"CUDA_VISIBLE_DEVICES", ""}}, 2).notes, IsEmpty());
  Topology none = four_gpus();
  none.gpus.clear();
  EXPECT_THAT(of({}, 2, none).notes, IsEmpty());
  EXPECT_THAT(of({{"CUDA_VISIBLE_DEVICES", "0"}}, 1, none).notes,
              ElementsAre(HasSubstr("0 GPUs are visible here")));
}

TEST(RankGpus, WhatCannotBeResolvedSaysWhy) {
  const auto note = [](const char* id) { return of({{"CUDA_VISIBLE_DEVICES", id}}, 1).notes.at(0); };
  EXPECT_THAT(note("MIG-5c89852c-d268-c3f3-1b07-005d5ae1dc3f"), HasSubstr("a MIG instance, and NVML"));
  EXPECT_THAT(note("GPU-ff"),
              HasSubstr("which no GPU driver shows here (/proc/driver/nvidia/gpus, NVML, /sys/class/kfd)"));
  EXPECT_THAT(note("GPU-"), HasSubstr("the UUIDs of several GPUs begin with it"));
  EXPECT_THAT(note("9"), HasSubstr("4 GPUs are visible here"));
  EXPECT_THAT(note("cuda:0"), HasSubstr("neither a number nor a UUID"));
  EXPECT_THAT(buses(of({{"CUDA_VISIBLE_DEVICES", "MIG-GPU-3b/1/0"}}, 1)), ElementsAre("3b"))
      << "the older names tell the GPU";
}

TEST(RankGpus, CudaOrdersGpusOfSeveralMakesByTheirSpeed) {
  Topology mixed = four_gpus();
  mixed.gpus[0].name = "NVIDIA T4";
  const Variables zero{{"CUDA_VISIBLE_DEVICES", "0"}};
  EXPECT_THAT(of(zero, 1, mixed).notes, ElementsAre(HasSubstr("set CUDA_DEVICE_ORDER=PCI_BUS_ID")));
  const Variables by_bus{{"CUDA_VISIBLE_DEVICES", "0"}, {"CUDA_DEVICE_ORDER", "PCI_BUS_ID"}};
  EXPECT_THAT(buses(of(by_bus, 1, mixed)), ElementsAre("04"));
}

TEST(RankGpus, OurVariablesSayNothingAboutAnotherMachine) {
  Topology other = four_gpus();
  other.is_this_machine = false;
  EXPECT_THAT(buses(of({{"CUDA_VISIBLE_DEVICES", "3"}}, 2, other)), ElementsAre("04", "3b"));
}

TEST(RankGpus, AMovedPlanTakesTheStepsGpusElseItsOwn) {
  Plan plan;
  plan.ranks.resize(2);
  plan.ranks[0].gpu = RankGpu{"0000:81:00.0", Node{1}};
  plan.ranks[1].gpu = RankGpu{"0000:c4:00.0", Node{1}};
  const auto moved = [&](const Variables& variables) {
    return moved_gpus(Environment(variables), four_gpus(), plan, 2);
  };
  EXPECT_THAT(buses(moved({})), ElementsAre("81", "-"));
  EXPECT_THAT(moved({}).notes, ElementsAre(HasSubstr("the plan's GPU 0000:c4:00.0 was not found here")));
  EXPECT_THAT(buses(moved({{"CUDA_VISIBLE_DEVICES", "0"}})), ElementsAre("81", "-")) << "one task's list";
  EXPECT_THAT(buses(moved({{"SLURM_STEP_GPUS", "0,1"}, {"CUDA_VISIBLE_DEVICES", "0"}})),
              ElementsAre("04", "3b"));
  EXPECT_THAT(buses(moved({{"SLURM_STEP_GPUS", "0"}})), ElementsAre("81", "-")) << "too few for the plan";
  const Environment step(Variables{{"SLURM_STEP_GPUS", "0,1"}});
  EXPECT_THAT(buses(moved_gpus(step, numbered_by_minor(), plan, 2)), ElementsAre("81", "c1")) << "by minor";
}

/// Returns a plan of ranks that have GPUs at these buses; "": none.
Plan plan_with_gpus(const std::vector<std::string>& at) {
  Plan plan;
  for (const std::string& bus : at) {
    plan.ranks.emplace_back();
    if (!bus.empty()) plan.ranks.back().gpu = RankGpu{"0000:" + bus + ":00.0", Node{1}};
  }
  return plan;
}

TEST(RankGpus, ARenewedPlanHasTheGpusOfThisNodeWhereItsOwnAreNotHere) {
  const auto renewed = [](const Plan& plan, const Variables& variables = {}) {
    return renewed_gpus(Environment(variables), four_gpus(), plan, 2);
  };
  const Plan elsewhere = plan_with_gpus({"11", "22"});
  EXPECT_THAT(buses(renewed(elsewhere)), ElementsAre("04", "3b"));
  EXPECT_THAT(renewed(elsewhere).notes,
              ElementsAre("the plan's GPUs of ranks 0,1 are not on this node: the ranks have the GPUs that "
                          "frameworks count here",
                          HasSubstr("2 ranks have 4 GPUs")));
  EXPECT_THAT(buses(renewed(elsewhere, {{"CUDA_VISIBLE_DEVICES", "3,2"}})), ElementsAre("c1", "81"));
  EXPECT_THAT(buses(renewed(elsewhere, {{"SLURM_STEP_GPUS", "2,3"}})), ElementsAre("81", "c1"));
  EXPECT_THAT(renewed(elsewhere, {{"SLURM_STEP_GPUS", "2,3"}}).notes, IsEmpty());

  const Plan here = plan_with_gpus({"81", "04"});
  EXPECT_THAT(buses(renewed(here)), ElementsAre("81", "04")) << "the plan's own";
  EXPECT_THAT(renewed(here).notes, IsEmpty());
  EXPECT_THAT(buses(renewed(plan_with_gpus({"81", "22"}))), ElementsAre("81", "3b"));
  EXPECT_THAT(renewed(plan_with_gpus({"81", "22"})).notes,
              ElementsAre(HasSubstr("the plan's GPU of rank 1 is")));
  EXPECT_THAT(buses(renewed(plan_with_gpus({"3b", "22"}))), ElementsAre("3b", "-")) << "never the same twice";
  EXPECT_THAT(
      renewed(plan_with_gpus({"3b", "22"})).notes,
      ElementsAre("the GPU of rank 1 is not known: the plan's GPU 0000:22:00.0 was not found here, and the "
                  "GPU that it would have here, 0000:3b:00.0, is that of rank 0 in the plan"));
  EXPECT_THAT(buses(renewed(plan_with_gpus({"", ""}))), ElementsAre("-", "-")) << "a plan without GPUs";
}

TEST(RankGpus, RanksThatThePlanLacksHaveAGpuOrAReason) {
  const Plan plan = plan_with_gpus({"04"});
  const auto renewed = [&](int ranks) { return renewed_gpus({}, four_gpus(), plan, ranks); };
  EXPECT_THAT(buses(renewed(4)), ElementsAre("04", "3b", "81", "c1"));
  EXPECT_THAT(renewed(4).notes, IsEmpty());
  EXPECT_THAT(renewed(5).notes,
              ElementsAre("the GPUs of ranks 1,2,3,4 are not known: the plan was made for 1 rank, and "
                          "this machine has 4 GPUs for 5 ranks"));
  const RankGpus fitted = moved_gpus({}, four_gpus(), plan, 2);
  EXPECT_THAT(buses(fitted), ElementsAre("04", "-"));
  EXPECT_THAT(fitted.notes, ElementsAre("the GPU of rank 1 is not known: the plan was made for 1 rank"));
  EXPECT_THAT(renewed_gpus({}, four_gpus(), plan_with_gpus({""}), 2).notes, IsEmpty());
  EXPECT_THAT(moved_gpus({}, four_gpus(), plan_with_gpus({""}), 2).notes, IsEmpty());
}

TEST(RankGpus, AGpuWithoutCpusInThePlanHasThoseOfItsNode) {
  Plan plan;
  plan.ranks.resize(2);
  for (const int rank : {0, 1})
    plan.ranks[static_cast<std::size_t>(rank)].gpu = RankGpu{"81", Node{1 - rank}};
  Topology topology = four_gpus();
  topology.gpus = planned_gpus(plan, topology);
  EXPECT_EQ(moved_gpus({}, topology, plan, 2).gpus[0]->local_cpus, topology.nodes[1].cpus);
}

TEST(RankGpus, APlannedGpuThatCannotBeUsedHereIsRenewed) {
  Topology pod = four_gpus();  // made on the node, and read in a container that has the last two
  for (std::size_t gpu = 0; gpu < 2; ++gpu) {
    pod.gpus[gpu].usable = false;
    pod.gpus[gpu].why_unusable = "/dev/nvidia0 is not here";
  }
  const RankGpus renewed = renewed_gpus({}, pod, plan_with_gpus({"04", "3b"}), 2);
  EXPECT_THAT(buses(renewed), ElementsAre("81", "c1"));
  EXPECT_THAT(renewed.notes,
              ElementsAre("the plan's GPUs of ranks 0,1 are not usable here: the ranks have the "
                          "GPUs that frameworks count here"));
}

TEST(RankGpus, ARenewedPlanHasTheGpusThatTheJobMaySee) {
  const Plan plan = plan_with_gpus({"04", "3b"});
  const auto renewed = [&](const Variables& variables) {
    return buses(renewed_gpus(Environment(variables), four_gpus(), plan, 2));
  };
  EXPECT_THAT(renewed({{"CUDA_VISIBLE_DEVICES", "2,3"}}), ElementsAre("81", "c1"));
  EXPECT_THAT(renewed({{"CUDA_VISIBLE_DEVICES", "GPU-c1,GPU-81"}}), ElementsAre("c1", "81"));
  EXPECT_THAT(renewed({{"CUDA_VISIBLE_DEVICES", "2"}}), ElementsAre("04", "3b")) << "one rank's own";
  EXPECT_THAT(renewed({{"CUDA_VISIBLE_DEVICES", "2,9"}}), ElementsAre("04", "3b")) << "not all are known";
  const Environment listed(Variables{{"CUDA_VISIBLE_DEVICES", "2,3"}});
  EXPECT_THAT(buses(renewed_gpus(listed, four_gpus(), plan_with_gpus({"", ""}), 2)), ElementsAre("-", "-"))
      << "a plan without GPUs";
}

TEST(RankGpus, OfAVendorWhoseListIsNotReadAreNotKnown) {
  for (const auto& [vendor, variable] : std::map<int, std::string>{{0x8086, "ZE_AFFINITY_MASK"},
                                                                   {0x1da3, "HABANA_VISIBLE_DEVICES"},
                                                                   {0x19e5, "ASCEND_RT_VISIBLE_DEVICES"}}) {
    Topology topology = four_gpus();
    for (Gpu& gpu : topology.gpus) gpu.vendor_id = vendor;
    const RankGpus ranks = of({{variable, "2,3"}}, 2, topology);
    EXPECT_THAT(buses(ranks), ElementsAre("-", "-")) << variable;
    EXPECT_THAT(ranks.notes, ElementsAre("the GPUs of ranks 0,1 are not known: " + variable +
                                         " is set, and zf-tune does not read which GPUs it selects"));
    const RankCount count = rank_count_of({}, Environment(Variables{{variable, "2,3"}}), topology);
    EXPECT_EQ(count.count, 2);
    EXPECT_EQ(count.source, variable);
    EXPECT_EQ(rank_count_of({}, Environment(Variables{{variable, "0-3"}}), topology).source, "4 GPUs");
    for (const char* word : {"", "all"})
      EXPECT_THAT(buses(of({{variable, word}}, 2, topology)), ElementsAre("04", "3b")) << word;
    EXPECT_THAT(buses(of({{variable, "2,3"}}, 2)), ElementsAre("04", "3b")) << "GPUs of another vendor";
  }
}

constexpr std::chrono::milliseconds kReadDeadline{10'000};

TEST(GpuDriver, NamesTheUuidsTheMinorsAndWhatAContainerSees) {
  Tree tree;
  tree.file("/proc/driver/nvidia/gpus/0000:3b:00.0/information",
            "Model: \t\t NVIDIA H200\nGPU UUID: \t GPU-8932f937-d72c\nBus Type: \t PCIe\nDevice Minor: \t 2");
  tree.file("/proc/driver/nvidia/gpus/0000:c1:00.0/information",
            "Model: \t\t NVIDIA H200\nGPU UUID: \t GPU-?-?-?\nDevice Minor: \t ?");
  Topology topology = four_gpus();
  EXPECT_EQ(read_nvidia_driver(tree.sysroot(), topology.gpus, kReadDeadline), "");
  EXPECT_EQ(topology.gpus[1].uuid, "GPU-8932f937-d72c");
  EXPECT_EQ(topology.gpus[1].minor, 2);
  EXPECT_EQ(topology.gpus[1].name, "NVIDIA H200");
  EXPECT_EQ(topology.gpus[3].name, "NVIDIA H200");
  EXPECT_EQ(topology.gpus[3].minor, std::nullopt);
  EXPECT_EQ(topology.gpus[3].uuid, "") << "the driver does not know it yet";
  EXPECT_FALSE(topology.gpus[0].usable);
  EXPECT_THAT(buses(of({{"CUDA_VISIBLE_DEVICES", "0,1"}}, 2, topology)), ElementsAre("3b", "c1"))
      << "a container counts its own";
}

TEST(GpuDriver, OneThatDoesNotAnswerIsGivenUpAndLeavesTheGpusAsTheyAre) {
  Tree tree;
  tree.file("/proc/driver/nvidia/gpus/0000:3b:00.0/information", "GPU UUID: \t GPU-8932f937-d72c");
  for (int gpu = 0; gpu < 250; ++gpu) {  // 3.7 GB to read
    const std::string path = format_text("/proc/driver/nvidia/gpus/0001:{:02x}:00.0/information", gpu);
    tree.file(path, "");
    std::filesystem::resize_file(tree.path().string() + path, 15 << 20);
  }
  Topology topology = four_gpus();
  EXPECT_THAT(read_nvidia_driver(tree.sysroot(), topology.gpus, std::chrono::milliseconds(0)),
              HasSubstr("the GPU driver did not answer within 0 ms"));
  EXPECT_EQ(topology.gpus[1].uuid, "GPU-3b");
  EXPECT_TRUE(topology.gpus[0].usable);
  topology.gpus.clear();
  EXPECT_EQ(read_nvidia_driver(tree.sysroot(), topology.gpus, std::chrono::milliseconds(0)), "")
      << "not asked";
}

/// Adds a node of AMD's driver: a CPU if it has no SIMDs.
void add_kfd_node(Tree& tree, int node, int simds, int location, std::uint64_t unique_id) {
  tree.file(format_text("/sys/class/kfd/kfd/topology/nodes/{}/properties", node),
            format_text("cpu_cores_count {}\nsimd_count {}\nlocation_id {}\ndomain 0\nunique_id {}",
                        simds == 0 ? 64 : 0, simds, location, unique_id));
}

/// Returns four GPUs. No driver has told their UUIDs yet.
Topology four_gpus_of_amd() {
  Topology topology = four_gpus();
  for (Gpu& gpu : topology.gpus) {
    gpu.name = "MI250X";
    gpu.uuid.clear();
    gpu.vendor_id = 0x1002;
  }
  return topology;
}

TEST(AmdDriver, NamesTheUuidsAndTheOrderOfRocm) {
  Tree tree;
  add_kfd_node(tree, 0, 0, 0, 0);
  add_kfd_node(tree, 4, 440, 0x8100, 0xdeadbeef00000081);
  add_kfd_node(tree, 5, 440, 0xc100, 0xdeadbeef000000c1);
  add_kfd_node(tree, 10, 440, 0x0400, 0);  // not before 4 and 5, as text would be
  add_kfd_node(tree, 11, 440, 0x3b00, 0);
  tree.file("/sys/bus/pci/devices/0000:04:00.0/unique_id", "0a0b0c0d00000004");
  Topology topology = four_gpus_of_amd();
  EXPECT_EQ(read_amd_driver(tree.sysroot(), topology.gpus, kReadDeadline), "");
  EXPECT_EQ(topology.gpus[2].uuid, "GPU-deadbeef00000081");
  EXPECT_EQ(topology.gpus[0].uuid, "GPU-0a0b0c0d00000004") << "the kernel tells it with the device";
  EXPECT_EQ(topology.gpus[1].uuid, "");

  EXPECT_THAT(buses(of({}, 4, topology)), ElementsAre("81", "c1", "04", "3b"));
  EXPECT_THAT(buses(of({{"ROCR_VISIBLE_DEVICES", "GPU-DEADBEEF000000C1,GPU-0a0b0c0d00000004"}}, 2, topology)),
              ElementsAre("c1", "04"));
  EXPECT_THAT(buses(of({{"ROCR_VISIBLE_DEVICES", "0,3"}}, 2, topology)), ElementsAre("81", "3b"));
  EXPECT_THAT(buses(of({{"CUDA_VISIBLE_DEVICES", "0,3"}}, 2, topology)), ElementsAre("81", "3b"))
      << "HIP obeys it too";
  const Variables both{{"ROCR_VISIBLE_DEVICES", "GPU-deadbeef000000c1,2"}, {"HIP_VISIBLE_DEVICES", "1,0"}};
  EXPECT_THAT(buses(of(both, 2, topology)), ElementsAre("04", "c1"));
  const Variables within{{"ROCR_VISIBLE_DEVICES", "GPU-deadbeef000000c1,2,3"},
                         {"CUDA_VISIBLE_DEVICES", "2,0"}};
  EXPECT_THAT(buses(of(within, 2, topology)), ElementsAre("3b", "c1")) << "CUDA's list is one of HIP here";
  EXPECT_EQ(rank_count_of({}, Environment(within), topology).count, 2);
  EXPECT_EQ(rank_count_of({}, Environment(within), topology).source,
            "CUDA_VISIBLE_DEVICES within ROCR_VISIBLE_DEVICES");
}

TEST(AmdDriver, SlurmsNumbersAreKnownWhereTheOrdersOfRocmAndPciAgree) {
  Tree tree;
  add_kfd_node(tree, 1, 304, 0x3b00, 2);
  add_kfd_node(tree, 2, 304, 0x0400, 1);
  add_kfd_node(tree, 3, 304, 0x8100, 3);
  add_kfd_node(tree, 4, 304, 0xc100, 4);
  Topology topology = four_gpus_of_amd();
  EXPECT_EQ(read_amd_driver(tree.sysroot(), topology.gpus, kReadDeadline), "");
  EXPECT_THAT(buses(of({{"SLURM_STEP_GPUS", "2,3"}}, 2, topology)), ElementsAre("81", "c1"));
  const RankGpus first = of({{"SLURM_STEP_GPUS", "0,3"}}, 2, topology);
  EXPECT_THAT(buses(first), ElementsAre("-", "c1"));
  EXPECT_THAT(first.notes, ElementsAre(HasSubstr("names \"0\", which may count in ROCm's order or in")));
  EXPECT_THAT(buses(of({{"SLURM_STEP_GPUS", "1"}, {"ROCR_VISIBLE_DEVICES", "1"}}, 1, topology)),
              ElementsAre("04"))
      << "ConstrainDevices=no: ROCm's own number";
}

TEST(AmdDriver, GpusThatTheJobsCgroupHidesAreNotGivenToRanks) {
  Tree tree;
  tree.file("/sys/class/kfd/kfd/topology/nodes/1/properties", "");  // the kernel refuses to show it
  tree.file("/sys/class/kfd/kfd/topology/nodes/2/properties", "");
  add_kfd_node(tree, 3, 304, 0x8100, 8);
  add_kfd_node(tree, 4, 304, 0x3b00, 9);
  Topology topology = four_gpus_of_amd();
  topology.gpus[3].vendor_id = 0x1da3;  // a Gaudi, which AMD's driver does not know
  EXPECT_EQ(read_amd_driver(tree.sysroot(), topology.gpus, kReadDeadline), "");
  EXPECT_FALSE(topology.gpus[0].usable);
  EXPECT_TRUE(topology.gpus[3].usable);
  Topology elsewhere = four_gpus_of_amd();
  for (Gpu& gpu : elsewhere.gpus) gpu.pci_address[0] = '1';  // a domain that older kernels do not tell
  EXPECT_EQ(read_amd_driver(tree.sysroot(), elsewhere.gpus, kReadDeadline), "");
  EXPECT_TRUE(elsewhere.gpus[0].usable) << "none is shown, so nothing is known of any";
  topology.gpus.pop_back();
  EXPECT_EQ(rank_count_of({}, {}, topology).count, 2);
  EXPECT_THAT(buses(of({}, 2, topology)), ElementsAre("81", "3b"));
  EXPECT_THAT(buses(of({{"ROCR_VISIBLE_DEVICES", "1"}}, 1, topology)), ElementsAre("3b"));
}

TEST(AmdDriver, NumbersAreNotKnownWhereAGpuIsDivided) {
  Tree tree;
  add_kfd_node(tree, 1, 304, 0x8100, 7);
  add_kfd_node(tree, 2, 304, 0x8100, 8);
  add_kfd_node(tree, 3, 304, 0x0400, 9);
  Topology topology = four_gpus_of_amd();
  EXPECT_EQ(read_amd_driver(tree.sysroot(), topology.gpus, kReadDeadline), "");
  EXPECT_EQ(topology.gpus[2].framework_number, 0) << "that of its first part";
  EXPECT_EQ(topology.gpus[2].parts, 2);
  EXPECT_EQ(topology.gpus[0].framework_number, 2);
  const auto* why = "GPU 0000:81:00.0 is divided into 2 parts: ROCm's numbers count its parts";
  for (const char* name : {"", "ROCR_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "SLURM_STEP_GPUS"}) {
    const RankGpus ranks = of({{name, "0"}}, 1, topology);
    EXPECT_THAT(buses(ranks), ElementsAre("-")) << name;
    EXPECT_THAT(ranks.notes, ElementsAre(HasSubstr(why))) << name;
  }
  const Variables by_uuid{
      {"ROCR_VISIBLE_DEVICES", "GPU-0000000000000009,GPU-0000000000000007,GPU-0000000000000008"}};
  EXPECT_THAT(buses(of(by_uuid, 3, topology)), ElementsAre("04", "81", "81"));
}

TEST(AmdDriver, PartsThatDoNotFollowEachOtherHaveNoOrder) {
  Tree tree;
  add_kfd_node(tree, 1, 304, 0x8100, 7);
  add_kfd_node(tree, 2, 304, 0x0400, 9);
  add_kfd_node(tree, 3, 304, 0x8100, 8);
  Topology topology = four_gpus_of_amd();
  EXPECT_EQ(read_amd_driver(tree.sysroot(), topology.gpus, kReadDeadline), "");
  EXPECT_EQ(topology.gpus[2].framework_number, std::nullopt);
  EXPECT_EQ(topology.gpus[2].parts, 2);
  EXPECT_EQ(topology.gpus[0].framework_number, 1);
}

TEST(AmdDriver, WithoutItsFolderNothingChanges) {
  Topology topology = four_gpus();
  EXPECT_EQ(read_amd_driver(Tree().sysroot(), topology.gpus, kReadDeadline), "");
  EXPECT_EQ(topology.gpus[0].uuid, "GPU-04");
  EXPECT_EQ(topology.gpus[0].framework_number, std::nullopt);
}

TEST(GpuDriver, WithoutItsFolderNothingChanges) {
  Topology topology = four_gpus();
  EXPECT_EQ(read_nvidia_driver(Tree().sysroot(), topology.gpus, kReadDeadline), "");
  EXPECT_EQ(topology.gpus[0].uuid, "GPU-04");
  EXPECT_TRUE(topology.gpus[0].usable);
}

}  // namespace
}  // namespace zf
