// The plan as values, field for field as in configs/plan.schema.json.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/id_set.hpp"
#include "os/memory.hpp"
#include "plan/evidence.hpp"
#include "plan/workload.hpp"

namespace zf {

/// The schema version that this code writes, and the only one that it reads.
inline constexpr const char* kPlanSchema = "zf-plan/1";

struct Provenance {
  std::string by;  ///< "zf-tune 0.1.0"
  std::string at;  ///< UTC, "2026-11-20T21:00:00Z"
  std::string host;
  std::string command;  ///< as typed
  bool operator==(const Provenance&) const = default;
};

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

/// What the job that made the plan was allowed to use, with notes on what its ranks lost by that.
struct Allocation {
  std::string fingerprint;
  CpuSet cpus;
  NodeSet mems;
  std::optional<double> cpu_quota;  ///< CPU time, in CPUs
  std::optional<std::uint64_t> memory_bytes;
  std::vector<std::string>
      notes;  ///< one sentence each, such as: a rank is far from its GPU, cores stay idle because of a quota
  bool operator==(const Allocation&) const = default;
};

/// The part of a plan that stays valid in another allocation of the same machine class.
struct Intent {
  Placement placement = Placement::compact;
  int pool_pus_per_core = 1;     ///< 1: one PU of each core; else all siblings
  int pool_cores = 0;            ///< per rank: the knee
  double reserved_fraction = 0;  ///< of a home's cores
  double idle_fraction = 0;      ///< of a home's cores: left to neither side
  std::optional<int>
      pool_kind;  ///< CPU kind of the pool's cores (hwloc's numbers, 0: the slowest); absent: any
  bool for_deepspeed = false;  ///< restricted to splits that DeepSpeed can be told
  bool operator==(const Intent&) const = default;
};

struct TrainingSide {
  CpuSet cpus;
  int threads = 1;  ///< the right value of OMP_NUM_THREADS
  bool operator==(const TrainingSide&) const = default;
};

struct OptimizerSide {
  CpuSet cpus;  ///< one pool thread per PU
  NodeSet mems;
  MemoryPolicy memory_policy = MemoryPolicy::preferred;
  bool operator==(const OptimizerSide&) const = default;
};

/// The GPU that a rank computes on.
struct RankGpu {
  std::string pci_address;   ///< "0000:3b:00.0"
  std::optional<Node> node;  ///< its NUMA node; absent: not one node, or not known
  bool operator==(const RankGpu&) const = default;
};

struct RankBinding {
  int rank = 0;                     ///< local rank
  std::optional<RankGpu> gpu = {};  ///< absent: the rank has none, or it is not known
  TrainingSide training;
  OptimizerSide optimizer;
  int pt_reserved_cores = 0;  ///< cores, not PUs; 0 if shared, because training has no core of its own
  double pt_reserved_cores_perc =
      0;  ///< (training PUs - 0.5) / all PUs of the rank; DeepSpeed rounds it to the training PUs
  bool shared = false;  ///< one core for both sides, the only case in which they overlap
  CpuSet cpus() const { return training.cpus | optimizer.cpus; }
  bool operator==(const RankBinding&) const = default;
};

struct Choice {
  std::string reason;
  int candidate = -1;                ///< CandidateEvidence::id; -1: nothing was measured
  Nanoseconds period_ns_median = 0;  ///< 0: nothing was measured
  int pool_threads = 0;              ///< per rank; the largest of any rank
  bool operator==(const Choice&) const = default;
};

struct Plan {
  Provenance made;
  MachineClass machine;
  Allocation allocation;
  Workload workload;
  Intent intent;
  std::vector<RankBinding> ranks;
  Choice choice;
  Evidence evidence;
  std::optional<Trial> trial;  ///< present if the job itself was tried
  std::vector<std::string> warnings;
  bool operator==(const Plan&) const = default;
};

/// Bytes that one fp32 Adam step moves per parameter: reads p, g, m, v and writes p, m, v.
inline constexpr std::uint64_t kAdamBytesPerParam = 28;

}  // namespace zf
