#include "os/cgroup.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/cpu_list.hpp"
#include "base/error.hpp"
#include "tree.hpp"

namespace zf {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr const char* kV1Mounts =
    "31 23 0:28 / /sys/fs/cgroup ro - tmpfs tmpfs ro,mode=755\n"
    "34 31 0:31 / /sys/fs/cgroup/cpuset rw,relatime shared:9 - cgroup cgroup rw,cpuset\n"
    "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
    "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct\n"
    "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw";

constexpr const char* kV2Mount = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate";

TEST(Cgroup, SlurmVersion1HasAllFourLimits) {
  Tree tree;
  const std::string job = "/slurm/uid_1000/job_7/step_0";
  tree.file("/proc/self/mountinfo", kV1Mounts);
  tree.file("/proc/self/cgroup", "5:cpuset:" + job + "\n4:memory:" + job + "\n3:cpu,cpuacct:/slurm\n0::/");
  tree.file("/sys/fs/cgroup/unified/cgroup.procs", "");
  tree.file("/sys/fs/cgroup/cpuset" + job + "/cpuset.cpus", "0,4-11,60");
  tree.file("/sys/fs/cgroup/cpuset" + job + "/cpuset.effective_cpus", "0,4-11");
  tree.file("/sys/fs/cgroup/cpuset" + job + "/cpuset.mems", "0-1");
  tree.file("/sys/fs/cgroup/cpu,cpuacct/slurm/cpu.cfs_quota_us", "250000");
  tree.file("/sys/fs/cgroup/cpu,cpuacct/slurm/cpu.cfs_period_us", "100000");
  tree.file("/sys/fs/cgroup/memory" + job + "/memory.limit_in_bytes", "9223372036854771712");
  tree.file("/sys/fs/cgroup/memory/slurm/uid_1000/job_7/memory.limit_in_bytes", "68719476736");
  tree.file("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712");

  const auto limits = read_cgroup_limits(tree.sysroot());
  ASSERT_TRUE(limits.cpus && limits.mems && limits.cpu_quota && limits.memory_bytes);
  EXPECT_EQ(print(limits.cpus->value), "0,4-11");
  EXPECT_EQ(limits.cpus->path, "/sys/fs/cgroup/cpuset" + job + "/cpuset.effective_cpus");
  EXPECT_EQ(print(limits.mems->value), "0-1");
  EXPECT_DOUBLE_EQ(limits.cpu_quota->value, 2.5);
  EXPECT_EQ(limits.memory_bytes->value, std::uint64_t{64} << 30);
  EXPECT_THAT(limits.memory_bytes->path, HasSubstr("job_7/memory.limit_in_bytes"));
}

TEST(Cgroup, Version1WithoutPrefix) {
  Tree tree;
  tree.file("/proc/self/cgroup", "2:cpuset:/batch");
  tree.file("/proc/self/mountinfo", "40 23 0:31 / /dev/cpuset rw - cgroup none rw,cpuset,noprefix");
  tree.file("/dev/cpuset/batch/cpus", "8-15").file("/dev/cpuset/batch/mems", "1");
  const auto limits = read_cgroup_limits(tree.sysroot());
  ASSERT_TRUE(limits.cpus && limits.mems);
  EXPECT_EQ(print(limits.cpus->value), "8-15");
  EXPECT_EQ(print(limits.mems->value), "1");
}

TEST(Cgroup, Version2TakesTheTightestAncestor) {
  Tree tree;
  tree.file("/proc/self/mountinfo", kV2Mount).file("/proc/self/cgroup", "0::/system.slice/job/step");
  const std::string root = "/sys/fs/cgroup/system.slice";
  tree.file(root + "/job/step/cpu.max", "max 100000").file(root + "/job/step/memory.max", "max");
  tree.file(root + "/job/cpu.max", "350000 100000").file(root + "/job/memory.max", "4294967296");
  tree.file(root + "/cpu.max", "150000 100000").file(root + "/memory.max", "8589934592");
  tree.file(root + "/cpuset.cpus.effective", "0-3,64-67").file(root + "/cpuset.mems.effective", "0,8");
  tree.file("/sys/fs/cgroup/cpuset.cpus.effective", "0-127");

  const auto limits = read_cgroup_limits(tree.sysroot());
  ASSERT_TRUE(limits.cpus && limits.mems && limits.cpu_quota && limits.memory_bytes);
  EXPECT_EQ(print(limits.cpus->value), "0-3,64-67") << "the nearest ancestor that has the controller";
  EXPECT_EQ(print(limits.mems->value), "0,8");
  EXPECT_DOUBLE_EQ(limits.cpu_quota->value, 1.5);
  EXPECT_EQ(limits.cpu_quota->path, root + "/cpu.max");
  EXPECT_EQ(limits.memory_bytes->value, std::uint64_t{4} << 30);
}

TEST(Cgroup, HybridReadsEachControllerWhereItLives) {
  Tree tree;
  tree.file("/proc/self/mountinfo", kV1Mounts).file("/proc/self/cgroup", "4:memory:/\n0::/user.slice");
  tree.file("/sys/fs/cgroup/memory/memory.limit_in_bytes", "1073741824");
  tree.file("/sys/fs/cgroup/unified/user.slice/cpuset.cpus.effective", "2-3");
  const auto limits = read_cgroup_limits(tree.sysroot());
  ASSERT_TRUE(limits.cpus && limits.memory_bytes);
  EXPECT_EQ(print(limits.cpus->value), "2-3");
  EXPECT_EQ(limits.memory_bytes->value, std::uint64_t{1} << 30);
}

TEST(Cgroup, BindMountedContainerSeesItsOwnGroupAtTheMount) {
  Tree tree;  // docker with the host's cgroup namespace: the path is the host's, the mount shows its end only
  tree.file("/proc/self/cgroup", "5:cpuset:/docker/abc/inner");
  tree.file("/proc/self/mountinfo",
            "90 80 0:31 /docker/abc /sys/fs/cgroup/cpu\\040set ro - cgroup cgroup rw,cpuset");
  tree.file("/sys/fs/cgroup/cpu set/cpuset.cpus", "4-7")
      .file("/sys/fs/cgroup/cpu set/inner/cpuset.cpus", "5");
  const auto limits = read_cgroup_limits(tree.sysroot());
  ASSERT_TRUE(limits.cpus);
  EXPECT_EQ(print(limits.cpus->value), "5");
  EXPECT_EQ(limits.cpus->path, "/sys/fs/cgroup/cpu set/inner/cpuset.cpus") << "escapes of mountinfo";
}

TEST(Cgroup, NamespacedContainerSeesItselfAsRoot) {
  Tree tree;
  tree.file("/proc/self/mountinfo", kV2Mount).file("/proc/self/cgroup", "0::/");
  tree.file("/sys/fs/cgroup/cpuset.cpus.effective", "1-2").file("/sys/fs/cgroup/cpu.max", "50000 100000");
  const auto limits = read_cgroup_limits(tree.sysroot());
  ASSERT_TRUE(limits.cpus && limits.cpu_quota);
  EXPECT_EQ(print(limits.cpus->value), "1-2");
  EXPECT_DOUBLE_EQ(limits.cpu_quota->value, 0.5);
}

TEST(Cgroup, MountAboveTheNamespaceRootStillCounts) {
  Tree tree;  // mounted before the namespace was entered: its root lies above ours
  tree.file("/proc/self/cgroup", "0::/");
  tree.file("/proc/self/mountinfo", "30 23 0:26 /.. /sys/fs/cgroup rw - cgroup2 cgroup2 rw");
  tree.file("/sys/fs/cgroup/cpu.max", "300000 100000");
  const auto limits = read_cgroup_limits(tree.sysroot());
  ASSERT_TRUE(limits.cpu_quota);
  EXPECT_DOUBLE_EQ(limits.cpu_quota->value, 3);
}

TEST(Cgroup, ProcessOutsideTheNamespaceIsFoundBesideIt) {
  Tree tree;
  tree.file("/proc/self/cgroup", "0::/../other");
  tree.file("/proc/self/mountinfo", "30 23 0:26 /.. /sys/fs/cgroup rw - cgroup2 cgroup2 rw");
  tree.file("/sys/fs/cgroup/other/cpuset.cpus.effective", "6")
      .file("/sys/fs/cgroup/cpuset.cpus.effective", "0-7");
  const auto limits = read_cgroup_limits(tree.sysroot());
  ASSERT_TRUE(limits.cpus);
  EXPECT_EQ(print(limits.cpus->value), "6");
}

TEST(Cgroup, MountOfAnotherGroupSaysNothingAboutUs) {
  for (const auto& [root, group] :
       {std::pair("/docker/abc", "/docker/other"), std::pair("/docker/abc", "/dock"),
        std::pair("/docker/abc", "/../sibling"), std::pair("/", "/../sibling")}) {
    Tree tree;
    tree.file("/proc/self/cgroup", std::string("0::") + group);
    tree.file("/proc/self/mountinfo",
              "30 23 0:26 " + std::string(root) + " /sys/fs/cgroup rw - cgroup2 cgroup2 rw");
    tree.file("/sys/fs/cgroup/cpuset.cpus.effective", "0").file("/sys/fs/sibling/cpuset.cpus.effective", "1");
    EXPECT_FALSE(read_cgroup_limits(tree.sysroot()).cpus) << root << " " << group;
  }
}

TEST(Cgroup, CoveredMountIsPassedOver) {
  Tree tree;
  tree.file("/proc/self/cgroup", "0::/job");
  tree.file("/proc/self/mountinfo",
            std::string(kV2Mount) + "\n31 23 0:26 /job /inner rw - cgroup2 cgroup2 rw");
  tree.file("/inner/cpuset.cpus.effective", "3");  // nothing below /sys/fs/cgroup/job
  const auto limits = read_cgroup_limits(tree.sysroot());
  ASSERT_TRUE(limits.cpus);
  EXPECT_EQ(limits.cpus->path, "/inner/cpuset.cpus.effective");
}

TEST(Cgroup, EmptyMachineHasNoLimits) {
  Tree tree;
  const auto limits = read_cgroup_limits(tree.sysroot());
  EXPECT_FALSE(limits.cpus || limits.mems || limits.cpu_quota || limits.memory_bytes);
}

TEST(Cgroup, WhatKernelsOfEl7WriteBehindAValueDoesNotCount) {
  using namespace std::string_literals;
  Tree tree;
  tree.file("/proc/self/mountinfo", kV2Mount).file("/proc/self/cgroup", "0::/");
  tree.file("/sys/fs/cgroup/cpuset.cpus.effective", "0-3 \n\0"s);
  tree.file("/sys/fs/cgroup/cpu.max", "150000 100000 \n\0"s).file("/sys/fs/cgroup/memory.max", "4096\n\0"s);
  const auto limits = read_cgroup_limits(tree.sysroot());
  ASSERT_TRUE(limits.cpus && limits.cpu_quota && limits.memory_bytes);
  EXPECT_EQ(print(limits.cpus->value), "0-3");
  EXPECT_DOUBLE_EQ(limits.cpu_quota->value, 1.5);
  EXPECT_EQ(limits.memory_bytes->value, 4096u);
  tree.file("/sys/fs/cgroup/cpu.max", "max 100000 \0"s).file("/sys/fs/cgroup/memory.max", "max\n\0"s);
  EXPECT_FALSE(read_cgroup_limits(tree.sysroot()).cpu_quota);
  EXPECT_FALSE(read_cgroup_limits(tree.sysroot()).memory_bytes);
}

TEST(Cgroup, NonsenseIsNamedByItsPath) {
  for (const auto& [file, text] : {std::pair("cpuset.cpus.effective", "4-2"), std::pair("cpu.max", "fast"),
                                   std::pair("cpu.max", "0 100000"), std::pair("memory.max", "12kB")}) {
    Tree tree;
    tree.file("/proc/self/mountinfo", kV2Mount).file("/proc/self/cgroup", "0::/");
    tree.file(std::string("/sys/fs/cgroup/") + file, text);
    try {
      read_cgroup_limits(tree.sysroot());
      FAIL() << file << " " << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.exit(), Exit::runtime_error);
      EXPECT_THAT(error.what(), AllOf(HasSubstr(file), HasSubstr(text)));
    }
  }
}

TEST(Cgroup, ThisMachineCanBeRead) { EXPECT_NO_THROW(read_cgroup_limits(SysRoot())); }

}  // namespace
}  // namespace zf
