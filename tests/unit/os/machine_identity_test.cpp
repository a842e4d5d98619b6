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
  tree.file("/sys/devices/system/cpu/present", "0-63\n");
  const MachineIdentity glance = read_machine_identity(tree.sysroot());
  EXPECT_EQ(glance.cpu_model, "AMD EPYC 9354 32-Core Processor");
  EXPECT_EQ(print(glance.present), "0-63");
}

TEST(MachineIdentity, WhatCannotBeReadIsNotKnown) {
  Tree tree;
  tree.file("/proc/cpuinfo", "processor\t: 0\nBogoMIPS\t: 50.00\n\nmodel name\t: of another CPU\n");
  const MachineIdentity glance = read_machine_identity(tree.sysroot());
  EXPECT_EQ(glance.cpu_model, "");
  EXPECT_TRUE(glance.present.empty());
}

}  // namespace
}  // namespace zf
