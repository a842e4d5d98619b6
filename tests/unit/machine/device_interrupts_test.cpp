#include "machine/device_interrupts.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/cpu_list.hpp"
#include "base/format.hpp"
#include "machine/fingerprint.hpp"
#include "sysroot_machine.hpp"

namespace zf {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr const char* kGpu = "/sys/bus/pci/devices/0000:3b:00.0";
constexpr const char* kNic = "/sys/class/infiniband/mlx5_0/device";
constexpr const char* kSameNic = "/sys/class/net/ib0/device";

std::vector<Gpu> one_gpu() {
  Gpu gpu;
  gpu.pci_address = "0000:3b:00.0";
  return {gpu};
}

void add_interrupt(Tree& tree, const std::string& device, int number, const std::string& cpus) {
  tree.file(format_text("{}/msi_irqs/{}", device, number), "msix");
  tree.file(format_text("/proc/irq/{}/effective_affinity_list", number), cpus);
}

std::vector<std::string> words_of(const Tree& tree) {
  return interrupts_in_words(read_device_interrupts(tree.sysroot(), one_gpu()));
}

TEST(DeviceInterrupts, EachDeviceAndTheCpusThatServeIt) {
  for (const auto& numbers : kNumberings) {
    Tree tree;
    add_interrupt(tree, kGpu, 130, print(numbered("5", numbers)));
    for (const int number : {200, 201, 202}) {
      const std::string cpu = std::to_string(numbers[static_cast<std::size_t>(number - 200)]);
      add_interrupt(tree, kNic, number, cpu);
      add_interrupt(tree, kSameNic, number, cpu);  // one card, two names
    }
    EXPECT_THAT(words_of(tree),
                ElementsAre(format_text("CPU {} serves 1 interrupt of GPU 0000:3b:00.0", numbers[5]),
                            format_text("CPUs {} serve 3 interrupts of network card mlx5_0",
                                        print(numbered("0-2", numbers)))));
  }
}

TEST(DeviceInterrupts, DevicesThatShareTheirCpusShareALine) {
  Tree tree;
  add_interrupt(tree, kGpu, 130, "5");
  add_interrupt(tree, kNic, 200, "5");
  EXPECT_THAT(words_of(tree),
              ElementsAre("CPU 5 serves 2 interrupts of GPU 0000:3b:00.0, network card mlx5_0"));
}

TEST(DeviceInterrupts, WhatIsEffectiveComesBeforeWhatIsAllowed) {
  Tree tree;
  add_interrupt(tree, kGpu, 130, "5");
  tree.file("/proc/irq/130/smp_affinity_list", "0-7");
  EXPECT_THAT(words_of(tree), ElementsAre("CPU 5 serves 1 interrupt of GPU 0000:3b:00.0"));
  Tree older;  // a kernel without effective_affinity_list
  older.file(std::string(kGpu) + "/irq", "16").file("/proc/irq/16/smp_affinity_list", "0-7");
  EXPECT_THAT(words_of(older), ElementsAre("CPUs 0-7 serve 1 interrupt of GPU 0000:3b:00.0"));
}

TEST(DeviceInterrupts, WhatNobodyServesIsLeftOut) {
  Tree tree;
  add_interrupt(tree, kGpu, 130, "");  // not in use
  tree.file("/proc/irq/130/smp_affinity_list", "0-7");
  tree.file("/sys/class/net/lo/address", "00:00:00:00:00:00");
  tree.file(std::string(kNic) + "/irq", "0");
  tree.file(std::string(kSameNic) + "/msi_irqs/77", "msix").file("/proc/irq/77/effective_affinity_list", "x");
  EXPECT_THAT(words_of(tree), IsEmpty());
}

TEST(DeviceInterrupts, TheyAreNoPartOfTheClassAndReadOnlyIfAskedFor) {
  Tree tree;
  add_cores(tree, 8);
  const Machine before = machine_in(tree);
  add_interrupt(tree, kNic, 200, "3");
  MachineSource source;
  source.sysroot = tree.sysroot();
  EXPECT_THAT(read_machine(source).interrupts, IsEmpty());
  source.with_interrupts = true;
  const Machine after = read_machine(source);
  EXPECT_THAT(interrupts_in_words(after.interrupts),
              ElementsAre("CPU 3 serves 1 interrupt of network card mlx5_0"));
  EXPECT_EQ(machine_class_of(after.topology).fingerprint, machine_class_of(before.topology).fingerprint);
  EXPECT_EQ(after.allowed.cpus, before.allowed.cpus);
}

}  // namespace
}  // namespace zf
