#include "os/online_cpus.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/cpu_list.hpp"
#include "base/format.hpp"
#include "os/affinity.hpp"
#include "os/allowed.hpp"
#include "tree.hpp"

namespace zf {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;

/// Adds a machine of these CPUs, all of them with a topology folder, and a file `online`.
void machine(Tree& tree, int cpus, const std::string& online) {
  tree.machine(format_text("0-{}", cpus - 1), "0").file("/sys/devices/system/cpu/online", online);
  for (int cpu = 0; cpu < cpus; ++cpu)
    tree.file(format_text("/sys/devices/system/cpu/cpu{}/topology/core_id", cpu), std::to_string(cpu));
}

void mask(Tree& tree, const std::string& cpus) {
  tree.file("/proc/self/status", "Name:\tcat\nCpus_allowed_list:\t" + cpus + "\nMems_allowed_list:\t0");
}

TEST(OnlineCpus, OfThisMachineHaveAllOfTheMask) {
  const OnlineCpus online = read_online_cpus(SysRoot());
  EXPECT_EQ(online.mask, thread_affinity());
  EXPECT_TRUE(online.cpus.contains(thread_affinity()));
  EXPECT_TRUE(online.present.contains(online.cpus));
}

TEST(OnlineCpus, TheMaskCountsWhereLxcfsCountsFromZero) {
  Tree tree;
  machine(tree, 32, "0-15");
  mask(tree, "8-15,24-31");
  const OnlineCpus online = read_online_cpus(tree.sysroot());
  EXPECT_EQ(print(online.cpus), "0-31");
  EXPECT_THAT(online.contradiction,
              AllOf(HasSubstr("the files contradict the kernel's mask (lxcfs?)"),
                    HasSubstr("online lists CPUs 0-15"), HasSubstr("the mask has CPUs 8-15,24-31")));
  const Allowed allowed = read_allowed(tree.sysroot());
  EXPECT_EQ(print(allowed.cpus), "8-15,24-31");
  ASSERT_EQ(allowed.exclusions.size(), 1u);
  EXPECT_EQ(allowed.exclusions[0].reason, ExclusionReason::affinity_mask);
  EXPECT_THAT(allowed.missing, Contains(online.contradiction));
}

TEST(OnlineCpus, TheMaskCountsAlsoWherePresentIsVirtual) {
  Tree tree;
  machine(tree, 32, "0-1");
  tree.file("/sys/devices/system/cpu/present", "0-1");
  mask(tree, "8-15,24-31");
  EXPECT_EQ(print(read_allowed(tree.sysroot()).cpus), "8-15,24-31");
}

TEST(OnlineCpus, ACpuThatTheListLacksIsOnlineByItsTopologyFolder) {
  Tree tree;  // lxcfs without --enable-cfs shows the cpuset
  machine(tree, 2, "1");
  mask(tree, "1");
  const OnlineCpus online = read_online_cpus(tree.sysroot());
  EXPECT_EQ(print(online.cpus), "0-1");
  EXPECT_THAT(online.contradiction, HasSubstr("online lists only CPU 1, and CPU 0 is online by other files"));
}

TEST(OnlineCpus, ACpuThatIsOfflineHasNoFolderOrSaysSo) {
  Tree tree;
  machine(tree, 4, "0-2");
  tree.file("/sys/devices/system/cpu/cpu3/online", "0");
  mask(tree, "0-3");
  EXPECT_EQ(print(read_online_cpus(tree.sysroot()).cpus), "0-2");
  EXPECT_EQ(read_online_cpus(tree.sysroot()).contradiction, "");
  EXPECT_EQ(print(read_allowed(tree.sysroot()).cpus), "0-2");
  Tree bare;
  bare.machine("0-3", "0").file("/sys/devices/system/cpu/online", "0-2");
  mask(bare, "0-7");
  EXPECT_EQ(print(read_online_cpus(bare.sysroot()).cpus), "0-2")
      << "a status file names CPUs that are offline";
  EXPECT_EQ(print(read_allowed(bare.sysroot()).cpus), "0-2");
}

TEST(OnlineCpus, AListThatIsWrongOnceCountsForNothing) {
  Tree tree;
  tree.machine("0-7", "0").file("/sys/devices/system/cpu/online", "0-1");
  for (const char* const cpu : {"4", "5"})
    tree.file(format_text("/sys/devices/system/cpu/cpu{}/topology/core_id", cpu), cpu);
  tree.file("/sys/devices/system/cpu/cpu7/online", "0");
  mask(tree, "4-5");
  EXPECT_EQ(print(read_online_cpus(tree.sysroot()).cpus), "0-6");
}

TEST(OnlineCpus, WithoutAListTheFoldersCount) {
  Tree tree;
  machine(tree, 4, "0-3");
  std::filesystem::remove(tree.path() / "sys/devices/system/cpu/online");
  const OnlineCpus online = read_online_cpus(tree.sysroot());
  EXPECT_EQ(print(online.cpus), "0-3");
  EXPECT_THAT(online.missing, Contains("/sys/devices/system/cpu/online cannot be read"));
  EXPECT_TRUE(read_online_cpus(Tree().sysroot()).cpus.empty());
}

}  // namespace
}  // namespace zf
