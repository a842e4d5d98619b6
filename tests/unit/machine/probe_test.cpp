#include "machine/probe.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "../topology/machines.hpp"
#include "base/cpu_list.hpp"
#include "base/error.hpp"

namespace zf {
namespace {

using testing::HasSubstr;
using Json = nlohmann::json;

Probe probe(const std::string& topology, const std::string& allowed = "") {
  MachineSource source;
  source.topology = topology;
  if (!allowed.empty()) source.allowed = parse_cpu_list(allowed, "test");
  return probe_of(read_machine(source), Environment(), std::nullopt);
}

TEST(Probe, SparseSlurmMaskInText) {
  const std::string text =
      probe_text(probe("pack:2 [numa(memory=256GiB)] l3u:2 core:12 pu:1", "0,4-11,21-26,30-46"));
  EXPECT_THAT(text, HasSubstr("2 packages, 2 NUMA nodes, 48 cores, 48 PUs"));
  EXPECT_THAT(text, HasSubstr("CPUs 0,4-11,21-26,30-46 (32 of 48 PUs, on 32 cores)"));
  EXPECT_THAT(text, HasSubstr("CPUs 1-3,12-20,27-29,47: not in --allowed"));
  EXPECT_THAT(text, HasSubstr("256 GiB"));
  EXPECT_THAT(text, HasSubstr("4 of 16 MiB for 12 cores each"));
}

TEST(Probe, OneScreenForEveryMachine) {
  const std::string big = probe_text(probe("pack:2 numa:4 l3u:3 core:8 pu:2"));
  EXPECT_LE(std::count(big.begin(), big.end(), '\n'), 24);
  EXPECT_THAT(big, HasSubstr("384 PUs"));
}

TEST(Probe, NumbersDealtOutInTurnAreShownAsStrides) {
  ZF_NEED_MACHINE(path, "converted/memorysidecaches.xml");
  EXPECT_THAT(probe_text(probe(path)), HasSubstr("0-76:4"));
}

TEST(Probe, TextNamesCpulessNodesAndGpus) {
  EXPECT_THAT(probe_text(probe(own_machine("qemu-memonly.xml"))),
              HasSubstr("2 NUMA nodes and 1 without CPUs"));
  ZF_NEED_MACHINE(path, "cts1-pascal.xml");
  const std::string text = probe_text(probe(path));
  EXPECT_THAT(text, HasSubstr("0000:04:00.0"));
  EXPECT_THAT(text, HasSubstr("Tesla P100-PCIE-16GB"));
}

TEST(Probe, WhatIsNoGpuIsListedWithTheReason) {
  const Probe qat = probe(own_machine("qat.xml"));
  const std::string text = probe_text(qat);
  EXPECT_THAT(text, HasSubstr("GPUs        none\n"));
  EXPECT_THAT(text,
              HasSubstr("Left out    8086:2710 (0000:6d:00.0): vendor 8086 is not known to make GPUs of "
                        "class 0b40\n"));
  EXPECT_THAT(text, HasSubstr("8086:4940 (0000:6b:00.0, 0000:e8:00.0): vendor 8086"));
  EXPECT_EQ(qat.ranks.count, 1);
  const Json json = Json::parse(probe_json(qat));
  EXPECT_EQ(json["gpus"], Json::array());
  EXPECT_EQ(json["left_out"].size(), 6U);
  EXPECT_EQ(json["left_out"][4], Json({{"pci", "0000:b1:00.0"},
                                       {"name", "8086:0b2b"},
                                       {"why", "vendor 8086 is not known to make GPUs of class 1200"}}));
}

TEST(Probe, AlikeDevicesAreOneLineAndAGpuThatCannotBeUsedHasItsReason) {
  Probe node = probe("pack:1 core:2 pu:1");
  Topology& topology = node.machine.topology;
  for (int function = 0; function < 8; ++function)
    topology.left_out.push_back({"0000:6b:01." + std::to_string(function), "8086:4941", "no GPU"});
  topology.gpus = {{"0000:10:00.0", "NVIDIA H100", topology.cpus, Node{0}}};
  topology.gpus[0].usable = false;
  topology.gpus[0].why_unusable = "/dev/nvidia0 is not here";
  const std::string text = probe_text(node);
  EXPECT_THAT(text, HasSubstr("8086:4941 (8 of them, 0000:6b:01.0 to 0000:6b:01.7): no GPU\n"));
  EXPECT_THAT(text, HasSubstr("NVIDIA H100 (/dev/nvidia0 is not here)\n"));
  const Json json = Json::parse(probe_json(node));
  EXPECT_EQ(json["gpus"][0]["usable"], false);
  EXPECT_EQ(json["gpus"][0]["why_unusable"], "/dev/nvidia0 is not here");
}

TEST(Probe, TextGivesTheReasonOfEachExclusion) {
  const std::string file = own_machine("qemu-2ht-offline2,5.xml");
  EXPECT_THAT(probe_text(probe(file)), HasSubstr("CPUs 2,5: offline, or not listed in " + file));
  EXPECT_THAT(probe_text(probe(own_machine("qemu-2n-cgroup2-cpuset-0,4-5-mems0.xml"))),
              HasSubstr("CPUs 1-3,6-7: outside the cgroup's cpuset"));
}

TEST(Probe, JsonHoldsTheMachineAndWhatIsAllowed) {
  const Json json = Json::parse(probe_json(probe(own_machine("qemu-2ht.xml"), "0-1,4")));
  EXPECT_EQ(json["schema"], "zf-probe/1");
  EXPECT_EQ(json["machine"]["packages"], 2);
  EXPECT_EQ(json["machine"]["pus"], 8);
  EXPECT_EQ(json["machine"]["this_machine"], false);
  EXPECT_EQ(json["nodes"][1]["cpus"], "2-3,6-7");
  EXPECT_EQ(json["cores"][0], Json({{"cpus", "0,4"}, {"package", 0}, {"node", 0}, {"l3", 0}, {"kind", 0}}));
  EXPECT_EQ(json["allowed"]["cpus"], "0-1,4");
  EXPECT_EQ(json["allowed"]["cpu_quota"], nullptr);
  EXPECT_EQ(json["allowed"]["shared_cpus"], false);
  EXPECT_EQ(json["allowed"]["exclusions"][0]["reason"], "not_in_list");
  EXPECT_EQ(json["ranks"]["count"], 1);
  EXPECT_EQ(json["missing"], Json::array());
}

TEST(Probe, JsonHasLimitsRanksAndSlurm) {
  Machine machine = read_machine({});
  machine.allowed.cpu_quota = 2.5;
  machine.allowed.cpu_quota_path = "/sys/fs/cgroup/cpu.max";
  machine.topology.missing.push_back("something");
  for (const char* const address : {"0000:3b:00.0", "0000:5e:00.0"})
    machine.topology.gpus.push_back({address, "a GPU", machine.topology.cpus, std::nullopt});
  const Environment environment(std::map<std::string, std::string>{{"SLURM_NTASKS_PER_NODE", "3"},
                                                                   {"SLURM_STEP_ID", "0"},
                                                                   {"SLURM_LOCALID", "1"},
                                                                   {"SLURM_JOB_ID", "77"},
                                                                   {"SLURM_CONF", "/etc/slurm.conf"}});
  const Probe probe = probe_of(machine, environment, std::nullopt);
  const Json json = Json::parse(probe_json(probe));
  EXPECT_EQ(json["allowed"]["cpu_quota"], 2.5);
  EXPECT_EQ(
      json["ranks"],
      Json({{"count", 3},
            {"source", "SLURM_NTASKS_PER_NODE"},
            {"local_rank", 1},
            {"local_rank_source", "SLURM_LOCALID"},
            {"gpus", {nullptr, nullptr, nullptr}},
            {"more_gpus", Json::array()},
            {"gpu_notes", {"the GPUs of ranks 0,1,2 are not known: this machine has 2 GPUs for 3 ranks"}}}));
  const Json both = Json::parse(probe_json(probe_of(machine, Environment(), std::nullopt, {2, 0})));
  EXPECT_EQ(both["ranks"]["count"], 1);
  EXPECT_EQ(both["ranks"]["gpus"], Json({"0000:3b:00.0"}));
  EXPECT_EQ(both["ranks"]["more_gpus"], Json::parse(R"([["0000:5e:00.0"]])"));
  EXPECT_EQ(json["slurm"]["SLURM_JOB_ID"], "77");
  EXPECT_FALSE(json["slurm"].contains("SLURM_CONF"));
  EXPECT_EQ(json["missing"], Json({"something"}));

  const std::string text = probe_text(probe);
  EXPECT_THAT(text, HasSubstr("2.5 CPUs' worth of time (/sys/fs/cgroup/cpu.max)"));
  EXPECT_THAT(text, HasSubstr("3 (SLURM_NTASKS_PER_NODE); this process is rank 1 (SLURM_LOCALID)"));
  EXPECT_THAT(text, HasSubstr("SLURM_JOB_ID=77"));
  EXPECT_THAT(text, HasSubstr("something"));
}

TEST(Probe, OurJobSaysNothingAboutAnotherMachine) {
  MachineSource source;
  source.topology = "pack:1 core:4 pu:1";
  const Environment environment(std::map<std::string, std::string>{
      {"LOCAL_RANK", "3"}, {"SLURM_JOB_ID", "1"}, {"LOCAL_WORLD_SIZE", "8"}});
  const Probe probe = probe_of(read_machine(source), environment, 2);
  EXPECT_FALSE(probe.local_rank);
  EXPECT_TRUE(probe.slurm.empty());
  EXPECT_EQ(probe.ranks.count, 2);
}

TEST(Probe, NamesThatAreNoUtf8DoNotBreakJson) {
  Probe odd = probe("pack:1 core:2 pu:1");
  odd.machine.topology.cpu_model = "\xff\xfe";
  EXPECT_TRUE(Json::parse(probe_json(odd))["machine"]["cpu_model"].is_string());
}

}  // namespace
}  // namespace zf
