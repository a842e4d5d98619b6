#include "os/allowed.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "base/cpu_list.hpp"
#include "base/error.hpp"
#include "cpus.hpp"
#include "os/affinity.hpp"
#include "tree.hpp"

namespace zf {
namespace {

using testing::AllOf;
using testing::HasSubstr;

NodeSet nodes(const char* list) { return parse_node_list(list, "test"); }

/// Returns 8 CPUs on two nodes, everything allowed.
AllowedInputs eight() {
  AllowedInputs inputs;
  inputs.present = inputs.online = cpus("0-7");
  inputs.nodes = nodes("0-1");
  return inputs;
}

Exit exit_of(const AllowedInputs& inputs, std::string& text) {
  try {
    allowed_from(inputs);
    return Exit::done;
  } catch (const Error& error) {
    text = error.what();
    return error.exit();
  }
}

TEST(Allowed, NothingExcludedNothingSaid) {
  const Allowed allowed = allowed_from(eight());
  EXPECT_EQ(allowed.cpus, cpus("0-7"));
  EXPECT_EQ(allowed.mems, nodes("0-1"));
  EXPECT_TRUE(allowed.exclusions.empty());
}

TEST(Allowed, EachCpuIsExcludedOnceByTheFirstReason) {
  AllowedInputs inputs = eight();
  inputs.online = cpus("0-6");
  inputs.cgroup.cpus = {cpus("0-5,7"), "/sys/fs/cgroup/x/cpuset.cpus.effective"};
  inputs.affinity = cpus("0-3,6");
  inputs.list = cpus("1-3,4-7");
  const Allowed allowed = allowed_from(inputs);
  EXPECT_EQ(allowed.cpus, cpus("1-3"));
  ASSERT_EQ(allowed.exclusions.size(), 4u);
  EXPECT_EQ(allowed.exclusions[0].reason, ExclusionReason::offline);
  EXPECT_EQ(allowed.exclusions[0].cpus, cpus("7"));
  EXPECT_EQ(allowed.exclusions[1].reason, ExclusionReason::cgroup_cpuset);
  EXPECT_EQ(allowed.exclusions[1].cpus, cpus("6"));
  EXPECT_THAT(allowed.exclusions[1].detail, HasSubstr("/sys/fs/cgroup/x/cpuset.cpus.effective"));
  EXPECT_EQ(allowed.exclusions[2].reason, ExclusionReason::affinity_mask);
  EXPECT_EQ(allowed.exclusions[2].cpus, cpus("4-5"));
  EXPECT_EQ(allowed.exclusions[3].reason, ExclusionReason::not_in_list);
  EXPECT_EQ(allowed.exclusions[3].cpus, cpus("0"));
}

TEST(Allowed, TheKernelsMaskComesBeforeTheFiles) {
  AllowedInputs inputs = eight();
  inputs.online = cpus("0");
  inputs.affinity = cpus("2-3");
  const Allowed allowed = allowed_from(inputs);
  EXPECT_EQ(allowed.cpus, cpus("2-3"));
  ASSERT_EQ(allowed.exclusions.size(), 2u);
  EXPECT_EQ(allowed.exclusions[0].reason, ExclusionReason::offline);
  EXPECT_EQ(allowed.exclusions[0].cpus, cpus("1,4-7"));
  EXPECT_EQ(allowed.exclusions[1].cpus, cpus("0"));
}

TEST(Allowed, PartitionOfThePresent) {
  for (unsigned mask = 0; mask < 256; ++mask) {
    AllowedInputs inputs = eight();
    inputs.affinity = CpuSet{};
    for (int bit = 0; bit < 8; ++bit) {
      if ((mask >> bit & 1u) != 0) inputs.affinity->insert(Pu{bit});
    }
    inputs.cgroup.cpus = {cpus("0-4"), "x"};
    std::string text;
    if ((*inputs.affinity & cpus("0-4")).empty()) {
      EXPECT_EQ(exit_of(inputs, text), Exit::infeasible);
      continue;
    }
    const Allowed allowed = allowed_from(inputs);
    CpuSet all = allowed.cpus;
    std::size_t sum = all.size();
    for (const auto& exclusion : allowed.exclusions) {
      EXPECT_FALSE(exclusion.cpus.empty());
      all |= exclusion.cpus;
      sum += exclusion.cpus.size();
    }
    EXPECT_EQ(all, inputs.present);
    EXPECT_EQ(sum, inputs.present.size());
  }
}

TEST(Allowed, MemsAreTheIntersection) {
  AllowedInputs inputs = eight();
  inputs.nodes = nodes("0-3,8");
  inputs.cgroup.mems = {nodes("0-2,8"), "x"};
  inputs.affinity_mems = nodes("1-8");
  inputs.mems_list = nodes("2-3,8");
  EXPECT_EQ(allowed_from(inputs).mems, nodes("2,8"));
}

TEST(Allowed, LimitsComeWithTheirFile) {
  AllowedInputs inputs = eight();
  inputs.cgroup.cpu_quota = {2.5, "/a/cpu.max"};
  inputs.cgroup.memory_bytes = {1024, "/b/memory.max"};
  const Allowed allowed = allowed_from(inputs);
  EXPECT_EQ(allowed.cpu_quota, 2.5);
  EXPECT_EQ(allowed.cpu_quota_path, "/a/cpu.max");
  EXPECT_EQ(allowed.memory_bytes, 1024u);
  EXPECT_EQ(allowed.memory_path, "/b/memory.max");
}

TEST(Allowed, NothingLeftIsInfeasibleAndSaysWhy) {
  AllowedInputs inputs = eight();
  inputs.affinity = cpus("0-1");
  inputs.list = cpus("2-7");
  std::string text;
  EXPECT_EQ(exit_of(inputs, text), Exit::infeasible);
  EXPECT_THAT(text, AllOf(HasSubstr("2-7 outside the affinity mask"), HasSubstr("0-1 not in --allowed")));

  AllowedInputs no_memory = eight();
  no_memory.cgroup.mems = {nodes("5"), "x"};
  EXPECT_EQ(exit_of(no_memory, text), Exit::infeasible);
}

TEST(Allowed, AMachineThatListsNoCpuIsTold) {
  std::string text;
  EXPECT_EQ(exit_of(AllowedInputs(), text), Exit::infeasible);
  EXPECT_THAT(text, HasSubstr("no CPU is left to use: none is listed as present or online"));
}

TEST(Allowed, ListsMayOnlyNameWhatExists) {
  std::string text;
  AllowedInputs inputs = eight();
  inputs.list = cpus("0,8-9");
  EXPECT_EQ(exit_of(inputs, text), Exit::usage);
  EXPECT_THAT(text, AllOf(HasSubstr("--allowed"), HasSubstr("8-9"), HasSubstr("0-7")));
  AllowedInputs mems = eight();
  mems.mems_list = nodes("2");
  EXPECT_EQ(exit_of(mems, text), Exit::usage);
  EXPECT_THAT(text, HasSubstr("--mems"));
}

TEST(Allowed, AnotherMachinesMaskIsInItsStatusFile) {
  Tree tree;
  tree.machine("0-127", "0-1");
  tree.file("/sys/devices/system/cpu/online", "0-126");
  tree.file("/proc/self/status",
            "Name:\tcat\nCpus_allowed:\tffff\nCpus_allowed_list:\t64,97-127\nMems_allowed_list:\t1");
  const Allowed allowed = read_allowed(tree.sysroot());
  EXPECT_EQ(print(allowed.cpus), "64,97-126");
  EXPECT_EQ(print(allowed.mems), "1");
  EXPECT_TRUE(allowed.missing.empty());
}

TEST(Allowed, NodesOfOldKernelsAreFoundByTheirMemory) {
  Tree tree;
  tree.machine("0-3", "");
  std::filesystem::remove(tree.path() / "sys/devices/system/node/has_memory");
  tree.file("/sys/devices/system/node/node0/meminfo", "Node 0 MemTotal:              0 kB");
  tree.file("/sys/devices/system/node/node16/meminfo", "Node 16 MemTotal:       16777216 kB");
  EXPECT_EQ(print(read_allowed(tree.sysroot()).mems), "16");
}

TEST(Allowed, PartialMachineSaysWhatIsMissing) {
  Tree tree;
  tree.file("/sys/devices/system/cpu/online", "0-3");
  const Allowed allowed = read_allowed(tree.sysroot());
  EXPECT_EQ(print(allowed.cpus), "0-3");
  EXPECT_THAT(allowed.missing, testing::Contains(HasSubstr("/sys/devices/system/cpu/present")));
  EXPECT_THAT(allowed.missing, testing::Contains(HasSubstr("/sys/devices/system/node")));
}

TEST(Allowed, ThisThreadsMaskCounts) {
  const CpuSet all = thread_affinity();
  EXPECT_EQ(read_allowed(SysRoot()).cpus, all);
  if (all.size() < 2) GTEST_SKIP() << "one CPU: no smaller mask to try";
  std::thread([&] {
    bind_this_thread({all.last()});
    const Allowed allowed = read_allowed(SysRoot());
    EXPECT_EQ(allowed.cpus, CpuSet{all.last()});
    ASSERT_FALSE(allowed.exclusions.empty());
    EXPECT_EQ(allowed.exclusions.back().reason, ExclusionReason::affinity_mask);
  }).join();
}

}  // namespace
}  // namespace zf
