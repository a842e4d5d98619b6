#include "os/isolated.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/cpu_list.hpp"
#include "cpus.hpp"
#include "tree.hpp"

namespace zf {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

Allowed eight_allowed() {
  Allowed allowed;
  allowed.cpus = cpus("0-7");
  return allowed;
}

TEST(Isolated, BothListsOfTheKernelAreRead) {
  Tree tree;
  tree.file("/sys/devices/system/cpu/isolated", "4-5").file("/sys/devices/system/cpu/nohz_full", "5-6");
  const IsolatedCpus isolated = read_isolated_cpus(tree.sysroot());
  EXPECT_EQ(isolated.isolated, cpus("4-5"));
  EXPECT_EQ(isolated.nohz_full, cpus("5-6"));
  EXPECT_TRUE(isolated.missing.empty());
}

TEST(Isolated, KernelsWithoutTheOptionsIsolateNothing) {
  Tree tree;
  tree.file("/sys/devices/system/cpu/isolated", "").file("/sys/devices/system/cpu/nohz_full", "  (null)");
  const IsolatedCpus isolated = read_isolated_cpus(tree.sysroot());
  EXPECT_TRUE(isolated.all().empty());
  EXPECT_TRUE(isolated.missing.empty());
  EXPECT_TRUE(read_isolated_cpus(Tree().sysroot()).missing.empty());
}

TEST(Isolated, AListThatCannotBeReadIsMissingAndNoError) {
  Tree tree;
  tree.file("/sys/devices/system/cpu/isolated", "four").file("/sys/devices/system/cpu/nohz_full", "6");
  const IsolatedCpus isolated = read_isolated_cpus(tree.sysroot());
  EXPECT_EQ(isolated.all(), cpus("6"));
  EXPECT_THAT(isolated.missing, ElementsAre(HasSubstr("/sys/devices/system/cpu/isolated")));
}

TEST(Isolated, EachCpuIsLeftOutOnceWithItsReason) {
  Allowed allowed = eight_allowed();
  leave_out_isolated(allowed, {cpus("4-5,9"), cpus("5-6"), {}});
  EXPECT_EQ(allowed.cpus, cpus("0-3,7"));
  ASSERT_EQ(allowed.exclusions.size(), 2u);
  EXPECT_EQ(allowed.exclusions[0].reason, ExclusionReason::isolated);
  EXPECT_EQ(allowed.exclusions[0].cpus, cpus("4-5"));
  EXPECT_THAT(allowed.exclusions[0].detail, HasSubstr("the scheduler does not move threads there"));
  EXPECT_EQ(allowed.exclusions[1].reason, ExclusionReason::nohz_full);
  EXPECT_EQ(allowed.exclusions[1].cpus, cpus("6"));
}

TEST(Isolated, AJobThatIsGivenNoOthersKeepsThem) {
  Allowed allowed = eight_allowed();
  leave_out_isolated(allowed, {cpus("0-5"), cpus("6-15"), {}});
  EXPECT_EQ(allowed.cpus, cpus("0-7"));
  EXPECT_TRUE(allowed.exclusions.empty());
}

TEST(Isolated, NohzFullOnAllButTheBootCpuLeavesTheJobItsCpus) {
  Allowed allowed = eight_allowed();
  leave_out_isolated(allowed, {{}, cpus("1-7"), {}});
  EXPECT_EQ(allowed.cpus, cpus("0-7"));
  EXPECT_TRUE(allowed.exclusions.empty());
  leave_out_isolated(allowed, {{}, cpus("3-7"), {}});
  EXPECT_EQ(allowed.cpus, cpus("0-7")) << "five of eight";
  leave_out_isolated(allowed, {{}, cpus("4-7"), {}});
  EXPECT_EQ(allowed.cpus, cpus("0-3")) << "half of them";
}

TEST(Isolated, NohzFullIsComparedWithTheCpusThatAreNotIsolated) {
  Allowed allowed = eight_allowed();
  leave_out_isolated(allowed, {cpus("4-7"), cpus("1-7"), {}});
  EXPECT_EQ(allowed.cpus, cpus("0-3")) << "the scheduler moves no thread to 4-7, but it does to 1-3";
  ASSERT_EQ(allowed.exclusions.size(), 1u);
  EXPECT_EQ(allowed.exclusions[0].reason, ExclusionReason::isolated);
  EXPECT_EQ(why_not_left_out(allowed.cpus, {cpus("4-7"), cpus("1-7"), {}}), "most of the allowed CPUs are");
  EXPECT_EQ(why_not_left_out(cpus("4-7"), {cpus("4-7"), cpus("1-7"), {}}), "no other CPU is allowed");
  EXPECT_EQ(why_not_left_out(cpus("2-3"), {cpus("4-7"), cpus("1-7"), {}}), "no other CPU is allowed");
}

TEST(Isolated, WordsNameOnlyTheCpusInQuestion) {
  const IsolatedCpus isolated{cpus("4-5"), cpus("5-6"), {}};
  EXPECT_EQ(isolation_in_words(cpus("0-3"), isolated), std::nullopt);
  EXPECT_THAT(*isolation_in_words(cpus("3-7"), isolated),
              AllOf(HasSubstr("CPUs 4-5 are isolated"), HasSubstr("; CPU 6 is nohz_full")));
}

}  // namespace
}  // namespace zf
