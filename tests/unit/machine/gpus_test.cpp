#include "machine/gpus.hpp"

#include <gtest/gtest.h>

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
