#include "os/machine_identity.hpp"

#include <gtest/gtest.h>

#include "base/cpu_list.hpp"
#include "tree.hpp"

namespace zf {
namespace {

TEST(MachineIdentity, TakesTheFirstCpusModelAndAllThatArePresent) {
  Tree tree;
  tree.file("/proc/cpuinfo",
            "processor\t: 0\nmodel name\t: AMD EPYC 9354 32-Core Processor\n\nprocessor\t: 1\n");
  tree.file("/sys/devices/system/cpu/present", "0-63\n").file("/sys/devices/system/cpu/online", "0-61\n");
  tree.file("/sys/devices/system/node/has_cpu", "0-1\n").file("/sys/devices/system/node/online", "0-3\n");
  const MachineIdentity glance = read_machine_identity(tree.sysroot());
  EXPECT_EQ(glance.cpu_model, "AMD EPYC 9354 32-Core Processor");
  EXPECT_EQ(print(glance.present), "0-63");
  EXPECT_EQ(print(glance.online), "0-61");
  EXPECT_EQ(glance.numa_nodes, 2) << "nodes 2 and 3 have memory only";
}

TEST(MachineIdentity, WhatCannotBeReadIsNotKnown) {
  Tree tree;
  tree.file("/proc/cpuinfo", "processor\t: 0\nBogoMIPS\t: 50.00\n\nmodel name\t: of another CPU\n");
  const MachineIdentity glance = read_machine_identity(tree.sysroot());
  EXPECT_EQ(glance.cpu_model, "");
  EXPECT_TRUE(glance.present.empty());
  EXPECT_TRUE(glance.online.empty());
  EXPECT_EQ(glance.numa_nodes, 0);
}

TEST(MachineIdentity, AFieldIsFoundByItsWholeNameInTheFirstCpuAlone) {
  Tree tree;
  tree.file("/proc/cpuinfo",
            "processor\t: 0\nvendor_id\t: AuthenticAMD\nmodel\t\t: 17\nmodel name\t: AMD EPYC\n\n"
            "flags\t: fpu\n");
  EXPECT_EQ(cpuinfo_field(tree.sysroot(), "vendor_id"), "AuthenticAMD");
  EXPECT_EQ(cpuinfo_field(tree.sysroot(), "model"), "17");
  EXPECT_EQ(cpuinfo_field(tree.sysroot(), "model name"), "AMD EPYC");
  EXPECT_EQ(cpuinfo_field(tree.sysroot(), "flags"), "");
}

}  // namespace
}  // namespace zf
