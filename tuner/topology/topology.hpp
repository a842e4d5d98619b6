// A machine as values: what exists, whether it is allowed or not. All numbers are OS indexes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/id_set.hpp"

namespace zf {

struct NumaNode {
  Node id;
  std::uint64_t memory_bytes = 0;
  CpuSet cpus;             ///< the CPUs that belong to this node; empty for HBM, CXL and GPU memory
  std::string subtype;     ///< "MCDRAM", "HBM", …; empty for plain DRAM
  CpuSet local_cpus = {};  ///< the CPUs near this node, which may belong to another node; empty: none
  bool is_cpuless() const { return cpus.empty(); }
};

/// PUs that share one last-level cache.
struct L3Group {
  CpuSet cpus;
  std::uint64_t cache_bytes = 0;
};

struct Core {
  CpuSet cpus;               ///< its PUs (SMT siblings)
  int package = 0;           ///< OS index
  std::optional<Node> node;  ///< the node that the core belongs to; absent if no node is local to it
  int l3 = -1;               ///< index into Topology::l3_groups; -1: none known
  int kind = 0;              ///< index into Topology::cpu_kinds; 0 if all cores are alike
};

/// PUs of one make: performance cores, or efficiency cores. Of a make with cores that differ today there are
/// two kinds: its slow cores, and next its fast ones (core_speeds.hpp).
struct CpuKind {
  CpuSet cpus;
  int efficiency_rank = -1;          ///< hwloc's; a lower rank is slower and uses less power; -1: unknown
  std::string description;           ///< "CoreType=IntelCore", "LinuxCapacity=718", …
  std::optional<int> capacity = {};  ///< Linux's cpu_capacity, 1024 for the fastest; absent: not known
  std::string today = {};            ///< "slow today: …" or "fast today" if cores of one make differ
  bool divides_make = false;         ///< of the same make as the kind before it
};

/// Returns the description of a kind and what it is today; "" if nothing is known.
std::string in_words(const CpuKind& kind);

/// Returns the number of a kind's make: 0 is the slowest. A make keeps its number if its cores differ today,
/// so it means the same on all machines of a class. Pure.
int make_of(const std::vector<CpuKind>& kinds, int kind);

/// Returns whether two speeds (clocks, capacities, instructions per second) are those of like cores: they
/// differ by at most 10 %. Cores of one make differ a little (capacities of 718 and 731; 997, 1017 and 1024
/// on a DGX Spark), and two makes differ more.
inline bool are_alike(double a, double b) { return std::max(a, b) <= 1.1 * std::min(a, b); }

/// Joins neighbouring kinds with capacities that are alike. Precondition: slow kinds come first. Pure.
std::vector<CpuKind> join_similar_kinds(const std::vector<CpuKind>& kinds);

struct Gpu {
  std::string pci_address;  ///< "0000:3b:00.0"
  std::string name;         ///< "NVIDIA H200", "cuda0", or vendor:device in hex
  CpuSet local_cpus;
  /// The node with CPUs that the GPU is attached to; absent: not one node, or unknown.
  std::optional<Node> node;
  std::string uuid = {};                  ///< "GPU-8932f937-…"; empty: unknown
  std::vector<std::string> aliases = {};  ///< UUIDs of its MIG instances or parts (live_gpus.hpp)
  bool usable = true;                     ///< false: a job here cannot compute on it (why_unusable)
  /// 3 for "cuda3" or "rsmi3", that of the first of `parts`; absent: unknown, or its parts do not follow each
  /// other
  std::optional<int> framework_number = {};
  std::optional<int> minor = {};  ///< 0 for /dev/nvidia0; not always the PCI order; absent: unknown
  int vendor_id = 0;              ///< of PCI: 0x10de is NVIDIA, 0x1002 AMD; 0: unknown
  int device_id = 0;              ///< of PCI: 0x2330 is an H100 SXM; 0: unknown
  int parts = 1;                  ///< how many GPUs ROCm sees in it (MI300 in CPX mode: 6 or 8)
  /// CUDA's number of it in PCI order; absent: unknown. usable_gpus() counts those of NVIDIA.
  std::optional<int> cuda_number = {};
  /// Why it is not usable, as the end of a sentence (live_gpus.hpp): "its driver does not show it here",
  /// "/dev/nvidia0 is not here"; empty if it is usable.
  std::string why_unusable = {};
};

/// Returns the GPU at a PCI address; null if there is none.
Gpu* gpu_at(std::vector<Gpu>& gpus, std::string_view pci_address);
const Gpu* gpu_at(const std::vector<Gpu>& gpus, std::string_view pci_address);

/// Gpu::why_unusable of a GPU that its driver hides.
constexpr const char* kHiddenByDriver = "its driver does not show it here";

/// A PCI device of a class in which some vendors make GPUs, and which is none for a job.
struct LeftOutDevice {
  std::string pci_address;
  std::string name;  ///< "Arrow Lake NPU", or vendor:device in hex
  std::string why;   ///< "vendor 8086 is not known to make GPUs of class 0b40"
};

struct Topology {
  std::string source;     ///< "this machine", or the file or synthetic description
  std::string cpu_model;  ///< may be empty
  bool is_this_machine = true;
  CpuSet cpus;            ///< every online PU
  CpuSet complete_cpus;   ///< every PU, offline ones included
  CpuSet allowed_cpus;    ///< what the cgroup of the process that recorded the topology allowed; equal to
                          ///< `cpus` if that cgroup excluded nothing
  NodeSet allowed_nodes;  ///< the same for nodes; compare it with all of `nodes`
  int packages = 0;
  std::vector<NumaNode> nodes;     ///< ascending by id
  std::vector<L3Group> l3_groups;  ///< topological order
  std::vector<Core> cores;         ///< topological order: package, node, L3, core
  std::vector<CpuKind> cpu_kinds;  ///< empty or one entry: all cores are alike
  std::vector<Gpu> gpus;           ///< by PCI address
  /// Every GPU that PCI alone shows, by address: whatever its driver is, and usable or not. Absent: PCI shows
  /// no device at all.
  std::optional<std::vector<Gpu>> pci_gpus = {};
  std::vector<std::string> missing;  ///< what could not be read, one sentence each
  /// What looks like a GPU and is none, by PCI address.
  std::vector<LeftOutDevice> left_out = {};
  /// True: the files contradict each other about the CPUs of NUMA nodes (KVM with cells that cross packages),
  /// so that `nodes` do not say which memory is near a CPU.
  bool nodes_contradict = false;
};

/// Returns the node with CPUs that holds all of these; nothing if there is none, or if files contradict each
/// other about nodes.
std::optional<Node> node_of(const Topology& topology, const CpuSet& cpus);

/// Returns the sum of the L3 caches in bytes; 0 if none is known.
std::uint64_t last_level_cache_bytes(const Topology& topology);

/// A node with the CPUs that are local to it. They need not belong to it: the kernel gives HBM, CXL and GPU
/// memory no CPUs, yet this memory is local to some.
struct NodeLocality {
  Node id;
  CpuSet local_cpus;
  std::string subtype;  ///< "MCDRAM", "HBM", "NVM", …; empty or "DRAM" for plain memory
};

/// Returns the index of the node that a core belongs to when several nodes are local to it; -1 if none is.
/// Plain memory wins over HBM, and HBM over the rest. Then the closest node wins (the fewest local CPUs),
/// then the lowest number, because the kernel numbers nodes with CPUs first. Pure.
int owner_of(const CpuSet& core, const std::vector<NodeLocality>& nodes);

}  // namespace zf
