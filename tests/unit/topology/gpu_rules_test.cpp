#include "topology/gpu_rules.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/format.hpp"
#include "machines.hpp"

namespace zf {
namespace {

PciIdentity device(std::uint16_t class_id, std::uint16_t vendor_id, std::uint8_t bus = 0x3b) {
  return {class_id, vendor_id, 0x20b0, bus, "", {}};
}

TEST(GpuNames, WhatTrains) {
  EXPECT_TRUE(is_compute_gpu(device(0x0302, 0x10de))) << "NVIDIA, 3D controller";
  EXPECT_TRUE(is_compute_gpu(device(0x0300, 0x10de))) << "NVIDIA with a display";
  EXPECT_TRUE(is_compute_gpu(device(0x0380, 0x1002))) << "AMD MI200";
  EXPECT_TRUE(is_compute_gpu(device(0x1200, 0x1002))) << "AMD MI300";
  EXPECT_TRUE(is_compute_gpu(device(0x1200, 0x1da3))) << "Gaudi";
  EXPECT_TRUE(is_compute_gpu(device(0x1200, 0x19e5))) << "Ascend";
  EXPECT_TRUE(is_compute_gpu(device(0x0380, 0x8086))) << "Intel Max";
}

TEST(GpuNames, AcceleratorsThatAreNoGpusAreNamedWithTheReason) {
  const auto why = [](std::uint16_t class_id, std::uint16_t vendor, std::uint16_t id) {
    PciIdentity one = device(class_id, vendor);
    one.device_id = id;
    EXPECT_FALSE(is_compute_gpu(one)) << format_text("{:04x}:{:04x}", vendor, id);
    return why_no_gpu(one);
  };
  for (const int qat : {0x4940, 0x4941, 0x37c8, 0x2710}) {
    EXPECT_EQ(why(0x0b40, 0x8086, static_cast<std::uint16_t>(qat)),
              "vendor 8086 is not known to make GPUs of class 0b40");
  }
  EXPECT_EQ(why(0x1200, 0x8086, 0x0b2b), "vendor 8086 is not known to make GPUs of class 1200") << "FPGA";
  EXPECT_EQ(why(0x1200, 0x10de, 1), "vendor 10de is not known to make GPUs of class 1200");
  EXPECT_EQ(why(0x1200, 0x19e5, 0xa250), "it is the compression engine of a Kunpeng CPU");
  EXPECT_EQ(why(0x0300, 0x1a03, 0x2000), "") << "the display of a server is not taken for a GPU";
  EXPECT_EQ(why(0x0380, 0x1ed5, 1), "") << "a vendor that is not known";
  EXPECT_EQ(why_no_gpu(device(0x0302, 0x10de)), "");
}

TEST(GpuNames, AnNpuIsNoGpuThoughLevelZeroListsIt) {
  PciIdentity npu = device(0x1200, 0x8086, 0);
  npu.os_devices = {{"ze0", "", true}};
  EXPECT_FALSE(is_compute_gpu(npu));
  EXPECT_NE(why_no_gpu(npu), "");
  PciIdentity graphics = device(0x0300, 0x8086, 0);
  EXPECT_FALSE(is_compute_gpu(graphics));
  graphics.os_devices = npu.os_devices;
  EXPECT_TRUE(is_compute_gpu(graphics)) << "a compute driver has the last word";
}

TEST(GpuNames, ADriversNameCanOnlyRuleADeviceOut) {
  for (const char* driver : {"vfio-pci", "4xxx", "4xxxvf", "c6xx", "c6xxvf", "dlb2"})
    EXPECT_THAT(why_no_gpu_with(driver), testing::HasSubstr(driver));
  for (const char* driver : {"nvidia", "amdgpu", "i915", "4xx", ""}) EXPECT_EQ(why_no_gpu_with(driver), "");
}

TEST(GpuNames, MachinesWithAcceleratorsHaveTheirGpusAlone) {
  const Topology qat = topology_of(own_machine("qat.xml"));
  EXPECT_TRUE(qat.gpus.empty());
  ASSERT_EQ(qat.left_out.size(), 6U);
  EXPECT_EQ(qat.left_out[2].pci_address, "0000:6b:00.1");
  EXPECT_EQ(qat.left_out[2].name, "8086:4941");
  const Topology npu = topology_of(own_machine("npu.xml"));
  ASSERT_EQ(npu.gpus.size(), 1U);
  EXPECT_EQ(npu.gpus[0].pci_address, "0000:01:00.0");
  ASSERT_EQ(npu.left_out.size(), 1U);
  EXPECT_EQ(npu.left_out[0].pci_address, "0000:00:0b.0");
}

TEST(GpuNames, WhatDoesNot) {
  EXPECT_FALSE(is_compute_gpu(device(0x0300, 0x1a03))) << "ASPEED";
  EXPECT_FALSE(is_compute_gpu(device(0x0300, 0x102b))) << "Matrox";
  EXPECT_FALSE(is_compute_gpu(device(0x0300, 0x1234))) << "QEMU";
  EXPECT_FALSE(is_compute_gpu(device(0x0300, 0x8086, 0))) << "inside the CPU";
  EXPECT_FALSE(is_compute_gpu(device(0x0380, 0x8086, 0))) << "inside the CPU, without a display";
  EXPECT_FALSE(is_compute_gpu(device(0x0200, 0x15b3))) << "network";
}

TEST(GpuNames, GraphicsOfServersAndInsideAmdCpusDoNotTrain) {
  PciIdentity vga = device(0x0300, 0x1002, 1);
  for (const int id : {0x515e, 0x5969, 0x4752, 0x164e, 0x1638}) {
    vga.device_id = static_cast<std::uint16_t>(id);
    EXPECT_FALSE(is_compute_gpu(vga)) << format_text("{:04x}", id);
  }
  vga.device_id = 0x744c;
  EXPECT_TRUE(is_compute_gpu(vga)) << "Radeon RX 7900, with a display";
  vga.device_id = 0x164e;
  vga.os_devices = {{"opencl0d0", "", true}};
  EXPECT_TRUE(is_compute_gpu(vga)) << "a compute driver has the last word";
}

TEST(CpuKinds, NearlyEqualCapacitiesAreOneKind) {
  std::vector<CpuKind> kinds;  // a DGX Spark's
  for (const int capacity : {718, 731, 997, 1017, 1024})
    kinds.push_back({{Pu{static_cast<int>(kinds.size())}}, static_cast<int>(kinds.size()), "", capacity});
  const std::vector<CpuKind> joined = join_similar_kinds(kinds);
  ASSERT_EQ(joined.size(), 2U);
  EXPECT_EQ(joined[0].cpus, (CpuSet{Pu{0}, Pu{1}}));
  EXPECT_EQ(joined[1].cpus, (CpuSet{Pu{2}, Pu{3}, Pu{4}}));
  EXPECT_EQ(joined[1].efficiency_rank, 1);
}

TEST(CpuKinds, KindsOfUnknownCapacityStayApart) {
  EXPECT_EQ(join_similar_kinds({{{Pu{0}}, 0, "IntelAtom"}, {{Pu{1}}, 1, "IntelCore"}}).size(), 2U);
}

TEST(GpuNames, ComputeDriverHasTheLastWord) {
  PciIdentity odd = device(0x0880, 0x1a03);
  odd.os_devices = {{"cuda0", "", true}};
  EXPECT_TRUE(is_compute_gpu(odd));
}

TEST(GpuNames, BestNameWins) {
  PciIdentity gpu = device(0x0302, 0x10de);
  EXPECT_EQ(gpu_name(gpu), "10de:20b0");
  gpu.os_devices = {{"renderD128", "", false}, {"cuda0", "", true}};
  EXPECT_EQ(gpu_name(gpu), "cuda0");
  gpu.name = "NVIDIA Corporation GA100";
  EXPECT_EQ(gpu_name(gpu), "NVIDIA Corporation GA100");
  gpu.os_devices[1].model = "NVIDIA A100-SXM4-40GB";
  EXPECT_EQ(gpu_name(gpu), "NVIDIA A100-SXM4-40GB");
}

const CpuSet kCore{Pu{0}, Pu{1}};
const CpuSet kPackage{Pu{0}, Pu{1}, Pu{2}, Pu{3}};

TEST(NodeOwner, PlainMemoryBeforeHbmWhateverTheNumbers) {
  EXPECT_EQ(owner_of(kCore, {{Node{0}, kPackage, "MCDRAM"}, {Node{4}, kPackage, ""}}), 1);
  EXPECT_EQ(owner_of(kCore, {{Node{0}, kCore, "HBM"}, {Node{4}, kPackage, "DRAM"}}), 1);
}

TEST(NodeOwner, CloserThenLowerNumber) {
  EXPECT_EQ(owner_of(kCore, {{Node{0}, kPackage, ""}, {Node{4}, kCore, ""}}), 1)
      << "CXL for all, DRAM nearby";
  EXPECT_EQ(owner_of(kCore, {{Node{9}, kPackage, ""}, {Node{1}, kPackage, ""}}), 1) << "GPU memory of GH200";
}

TEST(NodeOwner, HbmAloneOwnsItsCores) {
  EXPECT_EQ(owner_of(kCore, {{Node{0}, kPackage, "NVM"}, {Node{1}, kPackage, "HBM"}}), 1);
}

TEST(NodeOwner, NoneIsLocal) {
  EXPECT_EQ(owner_of(kCore, {{Node{0}, {Pu{2}, Pu{3}}, ""}, {Node{1}, {}, ""}}), -1);
}

}  // namespace
}  // namespace zf
