// A machine as values, read from hwloc: what exists, allowed or not. OS indexes everywhere.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/id_set.hpp"

namespace zf {

struct NumaNode {
  Node id;
  std::uint64_t memory_bytes = 0;
  CpuSet cpus;             ///< empty: a CPU-less node (HBM, CXL, GPU memory), never a home
  std::string subtype;     ///< "MCDRAM", "HBM", …; empty for plain DRAM
  CpuSet local_cpus = {};  ///< those it is near to, which may be the cpus of another node; empty: of none
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
  std::optional<Node> node;  ///< the node with CPUs that it belongs to; absent where the machine has none
  int l3 = -1;               ///< index into Topology::l3_groups, -1: none known
  int kind = 0;              ///< index into Topology::cpu_kinds, 0 where all are alike
};

/// PUs of equal make (performance or efficiency cores). Lower efficiency_rank: slower, thriftier.
struct CpuKind {
  CpuSet cpus;
  int efficiency_rank = -1;  ///< hwloc's; -1: unknown
  std::string description;   ///< "IntelCore", "IntelAtom", max frequency, …
};

struct Gpu {
  std::string pci_address;  ///< "0000:3b:00.0"
  std::string name;         ///< "NVIDIA H200", "cuda0", or vendor:device in hex
  CpuSet local_cpus;
  std::optional<Node> node;  ///< the node with CPUs that it hangs off; absent: no one node (or unknown)
  std::string uuid = {};     ///< "GPU-8932f937-…"; empty: not known
  std::vector<std::string> aliases = {};  ///< UUIDs of MIG instances on it, as far as asked (see nvml.hpp)
  bool usable = true;                     ///< false: its driver does not show it here (see read_gpu_driver)
  std::optional<int> minor = {};  ///< 0 of /dev/nvidia0, which need not be PCI order; absent: not known
};

struct Topology {
  std::string source;     ///< "this machine", or the file or synthetic description
  std::string cpu_model;  ///< may be empty
  bool is_this_machine = true;
  CpuSet cpus;           ///< every PU that is online
  CpuSet complete_cpus;  ///< offline ones as well
  CpuSet allowed_cpus;   ///< what the cgroup of whoever made the topology left; equal to `cpus` where nothing
                         ///< was cut
  NodeSet allowed_nodes;  ///< the same for nodes; compare with all of `nodes`
  int packages = 0;
  std::vector<NumaNode> nodes;     ///< ascending by id
  std::vector<L3Group> l3_groups;  ///< topological order
  std::vector<Core> cores;         ///< topological order: package, node, L3, core
  std::vector<CpuKind> cpu_kinds;  ///< empty or one: all alike
  std::vector<Gpu> gpus;           ///< by PCI address
  std::vector<std::string>
      missing;  ///< what could not be read, in words ("I/O discovery took over 3 s: no GPUs")
};

/// Sum of the L3 caches, bytes; 0 if none is known.
std::uint64_t last_level_cache_bytes(const Topology& topology);

}  // namespace zf
