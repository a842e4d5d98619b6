#include "machine/gpus.hpp"

#include <gtest/gtest.h>

#include "base/format.hpp"
#include "machine/topology.hpp"

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
  EXPECT_TRUE(is_compute_gpu(device(0x0380, 0x8086))) << "Intel Max";
}

TEST(GpuNames, WhatDoesNot) {
  EXPECT_FALSE(is_compute_gpu(device(0x0300, 0x1a03))) << "ASPEED";
  EXPECT_FALSE(is_compute_gpu(device(0x0300, 0x102b))) << "Matrox";
  EXPECT_FALSE(is_compute_gpu(device(0x0300, 0x1234))) << "QEMU";
  EXPECT_FALSE(is_compute_gpu(device(0x0300, 0x8086, 0))) << "inside the CPU";
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
