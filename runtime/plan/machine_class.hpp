// The machine that a plan was made on, and the part of it that its job was allowed to use.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/id_set.hpp"

namespace zf {

/// The hardware class, which is equal for two nodes of one type. `cpus` holds OS indexes; the other numbers
/// are counts.
struct MachineClass {
  std::string fingerprint;  ///< 16 hex digits
  std::string model;        ///< CPU model, for people
  int packages = 0;
  int numa_nodes = 0;  ///< those with CPUs
  int cores = 0;
  int pus = 0;
  CpuSet cpus;  ///< every PU of the machine
  bool operator==(const MachineClass&) const = default;
};

/// The CPUs, the memory and the quota that the job that made the plan was allowed to use, with notes on what
/// its ranks lost by these limits.
struct Allocation {
  std::string fingerprint;
  CpuSet cpus;
  NodeSet mems;
  std::optional<double> cpu_quota;  ///< CPU time, in CPUs
  std::optional<std::uint64_t> memory_bytes;
  std::vector<std::string>
      notes;  ///< one sentence each, such as: a rank is far from its GPU, cores stay idle because of a quota
  /// Neighbours share the CPUs: a quota pays for a part of them (os/shared_cpus.hpp). Homes may overlap, and
  /// no thread is pinned to a single PU.
  bool shared_cpus = false;
  bool operator==(const Allocation&) const = default;
};

}  // namespace zf
