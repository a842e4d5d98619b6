#include "gpus/live_gpus.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "../os/tree.hpp"
#include "gpus/gpu_lists.hpp"
#include "topology/gpu_rules.hpp"

namespace zf {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::chrono::milliseconds kDeadline{10'000};

Gpu gpu_of(int vendor, const std::string& bus, std::optional<int> minor = {}) {
  Gpu gpu{"0000:" + bus + ":00.0", "a GPU", {}, {}};
  gpu.vendor_id = vendor;
  gpu.minor = minor;
  return gpu;
}

/// Returns two GPUs of NVIDIA and two of AMD.
std::vector<Gpu> two_nvidia_two_amd() {
  return {gpu_of(kNvidia, "10", 0), gpu_of(kNvidia, "20", 1), gpu_of(kAmd, "c1"), gpu_of(kAmd, "c6")};
}

std::vector<std::string> reasons(const std::vector<Gpu>& gpus) {
  std::vector<std::string> list;
  for (const Gpu& gpu : gpus) {
    EXPECT_EQ(gpu.usable, gpu.why_unusable.empty());
    list.push_back(gpu.why_unusable);
  }
  return list;
}

/// Returns why two_nvidia_two_amd() cannot be used on the machine in this folder.
std::vector<std::string> reasons_in(const Tree& tree) {
  std::vector<Gpu> gpus = two_nvidia_two_amd();
  EXPECT_EQ(read_device_nodes(tree.sysroot(), gpus, kDeadline), "");
  return reasons(gpus);
}

TEST(DeviceNodes, AGpuOfNvidiaWithoutItsNodeIsAnotherContainers) {
  Tree tree;
  tree.file("/dev/nvidiactl", "").file("/dev/nvidia-uvm", "");
  EXPECT_THAT(reasons_in(tree), ElementsAre("", "", "", ""))
      << "no node says anything: WSL2, or not made yet";
  tree.file("/dev/nvidia1", "");
  EXPECT_THAT(reasons_in(tree), ElementsAre("/dev/nvidia0 is not here", "", "", ""));
  std::vector<Gpu> gpus = two_nvidia_two_amd();
  gpus[0].minor.reset();
  EXPECT_EQ(read_device_nodes(tree.sysroot(), gpus, kDeadline), "");
  EXPECT_TRUE(gpus[0].usable) << "its node is not known";
}

TEST(DeviceNodes, AGpuOfAmdNeedsItsRenderNode) {
  Tree tree;
  tree.file("/sys/bus/pci/devices/0000:c1:00.0/drm/renderD128/dev", "")
      .file("/sys/bus/pci/devices/0000:c6:00.0/drm/card1/dev", "")
      .file("/sys/bus/pci/devices/0000:c6:00.0/drm/renderD129/dev", "")
      .file("/sys/bus/pci/devices/0000:10:00.0/drm/renderD130/dev", "");
  EXPECT_THAT(reasons_in(tree), ElementsAre("", "", "", "")) << "a capture without dev/";
  tree.file("/dev/kfd", "").file("/dev/dri/renderD129", "");
  EXPECT_THAT(reasons_in(tree), ElementsAre("", "", "/dev/dri/renderD128 is not here", ""))
      << "NVIDIA's compute without theirs";
}

TEST(DeviceNodes, WhatMayNotBeOpenedCannotBeUsed) {
  std::map<std::string, NodeAccess> nodes;
  const auto why = [&](const Gpu& gpu, const std::string& render) {
    return why_unreachable(device_nodes_of(gpu, render, true), [&](const std::string& path) {
      const auto found = nodes.find(path);
      return found == nodes.end() ? NodeAccess::absent : found->second;
    });
  };
  nodes = {{"/dev/nvidia0", NodeAccess::refused},
           {"/dev/dri/renderD128", NodeAccess::open},
           {"/dev/dri/renderD129", NodeAccess::refused}};
  EXPECT_EQ(why(gpu_of(kNvidia, "10", 0), ""), "/dev/nvidia0 may not be opened here");
  EXPECT_EQ(why(gpu_of(kAmd, "c1"), "renderD128"), "") << "without /dev/kfd nothing is known of it";
  EXPECT_EQ(why(gpu_of(kIntel, "4d"), "renderD129"), "/dev/dri/renderD129 may not be opened here");
  nodes["/dev/kfd"] = NodeAccess::refused;
  EXPECT_EQ(why(gpu_of(kAmd, "c1"), "renderD128"), "/dev/kfd may not be opened here");
  EXPECT_EQ(why(gpu_of(kIntel, "4d"), "renderD128"), "");
  EXPECT_EQ(why(gpu_of(kHabana, "5d"), "renderD128"), "");
}

TEST(BoundDrivers, WhatIsGivenToAVirtualMachineIsNoGpuOfThisOne) {
  Tree tree;
  tree.file("/sys/bus/pci/devices/0000:10:00.0/uevent", "DRIVER=vfio-pci\nPCI_CLASS=30200");
  tree.file("/sys/bus/pci/devices/0000:20:00.0/uevent", "DRIVER=nvidia\nPCI_CLASS=30200");
  tree.file("/sys/bus/pci/devices/0000:c1:00.0/uevent", "DRIVER=\nPCI_CLASS=120000");
  Topology topology;
  topology.gpus = two_nvidia_two_amd();
  topology.left_out = {{"0000:15:00.0", "8086:4940", "as before"}};
  EXPECT_EQ(leave_out_by_driver(tree.sysroot(), topology, kDeadline), "");
  ASSERT_EQ(topology.gpus.size(), 3U);
  EXPECT_EQ(topology.gpus[0].pci_address, "0000:20:00.0");
  ASSERT_EQ(topology.left_out.size(), 2U);
  EXPECT_EQ(topology.left_out[0].pci_address, "0000:10:00.0");
  EXPECT_THAT(topology.left_out[0].why, HasSubstr("vfio-pci"));
  Topology older;
  older.gpus = two_nvidia_two_amd();
  EXPECT_EQ(leave_out_by_driver(Tree().sysroot(), older, kDeadline), "");
  EXPECT_EQ(older.gpus.size(), 4U) << "a capture without uevent";
}

/// Returns why GPUs with these UUIDs cannot be used in a container with this list.
std::vector<std::string> reasons_with(const std::string& list, std::string& missing) {
  std::vector<Gpu> gpus{gpu_of(kNvidia, "10"), gpu_of(kNvidia, "20"), gpu_of(kAmd, "c1")};
  gpus[0].uuid = "GPU-10aa";
  gpus[1].uuid = "GPU-20bb";
  gpus[1].aliases = {"MIG-5c89"};
  missing = keep_container_gpus(
      Environment(std::map<std::string, std::string>{{"NVIDIA_VISIBLE_DEVICES", list}}), gpus);
  return reasons(gpus);
}

TEST(ContainerGpus, UuidsCountAndWordsAndNumbersAreNoLists) {
  std::string missing;
  for (const char* const list : {"GPU-20bb", "GPU-20BB", "MIG-5c89", "MIG-GPU-20bb/1/0"}) {
    EXPECT_THAT(reasons_with(list, missing), ElementsAre("NVIDIA_VISIBLE_DEVICES does not name it", "", ""))
        << list;
    EXPECT_EQ(missing, "");
  }
  EXPECT_THAT(reasons_with("GPU-20bb,GPU-10aa", missing), ElementsAre("", "", ""));
  for (const char* const word : {"all", "none", "void", "", "1", "1,GPU-20bb"}) {
    EXPECT_THAT(reasons_with(word, missing), ElementsAre("", "", "")) << word;
    EXPECT_EQ(missing, "");
  }
}

TEST(ContainerGpus, AListOfUuidsThatNoDriverShowsIsNotUsed) {
  std::string missing;
  EXPECT_THAT(reasons_with("GPU-20bb,GPU-77", missing), ElementsAre("", "", ""));
  EXPECT_EQ(missing,
            "NVIDIA_VISIBLE_DEVICES names \"GPU-77\", which no GPU driver shows here: the list is not used");
}

}  // namespace
}  // namespace zf
