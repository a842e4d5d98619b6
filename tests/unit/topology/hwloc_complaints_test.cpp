#include "topology/hwloc_complaints.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>

#include "../machine/sysroot_machine.hpp"
#include "base/format.hpp"
#include "machines.hpp"

namespace zf {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kBanner =
    "****************************************************************************\n"
    "* hwloc 2.9.0 received invalid information from the operating system.\n"
    "*\n"
    "* Failed with: intersection without inclusion\n"
    "* while inserting L3 (cpuset 0x0000001f) at Package (P#0 cpuset 0x000000ff)\n"
    "* coming from: linux:sysfs:cpu\n"
    "*\n"
    "* The following FAQ entry in the hwloc documentation may help:\n"
    "*   What should I do when hwloc reports \"operating system\" warnings?\n"
    "* hwloc will now ignore this invalid topology information and continue.\n"
    "****************************************************************************\n";

TEST(HwlocComplaints, ABannerIsOneSentence) {
  const HwlocMessages one = hwloc_messages(kBanner);
  EXPECT_EQ(one.complaint,
            "the description of this machine contradicts itself, and hwloc left something out: Failed with: "
            "intersection without inclusion while inserting L3 (cpuset 0x0000001f) at Package (P#0 cpuset "
            "0x000000ff) coming from: linux:sysfs:cpu");
  EXPECT_EQ(one.others, "");
  const HwlocMessages two = hwloc_messages(std::string(kBanner) + kBanner);
  EXPECT_EQ(two.complaint, one.complaint) << "the first one counts";
  EXPECT_EQ(two.others, "");
}

TEST(HwlocComplaints, WhatIsNoBannerOfHwlocStaysAsItIs) {
  const std::string box(30, '*');
  for (const std::string& text :
       {std::string(), std::string("libfoo: cannot open /dev/foo\n* hwloc will now rest\n"),
        box + "\n* libfoo has encountered a problem\n" + box + "\n", box + "\n* libfoo", box,
        std::string("no end of line")}) {
    EXPECT_EQ(hwloc_messages(text).complaint, std::nullopt) << text;
    EXPECT_EQ(hwloc_messages(text).others, text);
  }
}

TEST(HwlocComplaints, TextBesideABannerIsNotLost) {
  const std::string banner = kBanner;
  const auto middle = banner.find("* Failed");
  const HwlocMessages messages =
      hwloc_messages("libfoo: before\n" + banner.substr(0, middle) + "libfoo: between\n" +
                     banner.substr(middle) + "libfoo: after");
  EXPECT_EQ(messages.complaint, hwloc_messages(banner).complaint);
  EXPECT_EQ(messages.others, "libfoo: before\nlibfoo: between\nlibfoo: after");
  const HwlocMessages cut = hwloc_messages(banner.substr(0, banner.find("* hwloc will now")));
  EXPECT_EQ(cut.complaint, hwloc_messages(banner).complaint) << "hwloc died while it wrote";
  EXPECT_EQ(cut.others, "");
}

TEST(HwlocComplaints, WhatWeSayOurselvesIsDropped) {
  EXPECT_EQ(hwloc_messages(
                "libfoo: before\n[hwloc/linux] failed to find sysfs cpu topology directory, aborting linux "
                "discovery.\nlibfoo: after\n")
                .others,
            "libfoo: before\nlibfoo: after\n");
}

TEST(HwlocComplaints, StderrIsKeptAndGivenBack) {
  testing::internal::CaptureStderr();
  std::string kept;
  {
    StderrKept messages;
    std::fputs("inside", stderr);
    kept = messages.taken();
    EXPECT_EQ(messages.taken(), "");
    std::fputs("outside", stderr);
  }
  EXPECT_EQ(kept, "inside");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "outside");
}

TEST(HwlocComplaints, MessagesOfOthersAreNotLost) {
  testing::internal::CaptureStderr();
  {
    StderrKept untaken;
    std::fputs("before a throw; ", stderr);
  }
  EXPECT_EQ(take_complaint("libfoo: no /dev/foo"), std::nullopt);
  EXPECT_TRUE(take_complaint(std::string(kBanner) + "; no /dev/bar"));
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "before a throw; libfoo: no /dev/foo; no /dev/bar");
}

TEST(HwlocComplaints, MessagesOfOthersDoNotDriveTheTerminal) {
  testing::internal::CaptureStderr();
  {
    StderrKept untaken;
    std::fputs("one\x1b[2J\u202e;\n", stderr);
  }
  EXPECT_EQ(take_complaint("two\x1b[2J\u202e\n"), std::nullopt);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "one [2J ;\ntwo [2J \n");
}

TEST(HwlocComplaints, AMachineThatContradictsItselfIsReadAndSaysSo) {
  Tree tree;
  add_cores(tree, 8);
  for (int cpu = 0; cpu < 8; ++cpu) {  // an L3 cache of CPUs 0-4 across the borders of the dies 0-3 and 4-7
    const std::string folder = format_text("/sys/devices/system/cpu/cpu{}/", cpu);
    tree.file(folder + "topology/die_id", std::to_string(cpu / 4));
    tree.file(folder + "topology/die_cpus", cpu < 4 ? "f" : "f0");
    const std::string cache = folder + "cache/index3/";
    tree.file(cache + "level", "3").file(cache + "type", "Unified").file(cache + "size", "32768K");
    tree.file(cache + "shared_cpu_map", cpu < 5 ? "1f" : "e0");
  }
  testing::internal::CaptureStderr();
  const Machine machine = machine_in(tree);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(machine.topology.cores.size(), 8U);
  EXPECT_THAT(machine.topology.missing, ElementsAre(HasSubstr("contradicts itself")));
}

}  // namespace
}  // namespace zf
