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

/// The version of the format that this code writes.
inline constexpr const char* kPlanSchema = "zf-plan/2";
/// An older version that it reads too. docs/plan-format.md says how.
inline constexpr const char* kFormerPlanSchema = "zf-plan/1";

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
  bool operator==(const Allocation&) const = default;
};

/// How the optimizer keeps parameters and moments. So far there is one way.
enum class StateFormat { fp32 };

/// The part of a plan that stays valid in another allocation of the same machine class.
struct Intent {
  Placement placement = Placement::compact;
  int pool_pus_per_core = 1;     ///< 1: one PU of each core; else all siblings
  int pool_cores = 0;            ///< per rank: what was chosen
  double reserved_fraction = 0;  ///< of a home's cores
  double idle_fraction = 0;      ///< of a home's cores: left to neither side
  /// The make of the pool's cores, 0: the slowest. Makes whose capacities differ by at most 10 % are one, and
  /// cores that are fast or slow today are no make of their own. Absent: the slowest cores first.
  std::optional<int> pool_make;
  bool for_deepspeed = false;  ///< restricted to splits that DeepSpeed can be told
  bool isolated = false;       ///< homes may have CPUs that the kernel isolates (--isolated)
  bool shared = false;  ///< training has the whole home, and the pool runs on all or some of the same cores
  StateFormat state_format = StateFormat::fp32;
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
  std::string pci_address;        ///< "0000:3b:00.0"
  std::optional<Node> node = {};  ///< its NUMA node; absent: not one node, or not known
  CpuSet cpus = {};               ///< the CPUs near it; empty: not known
  std::optional<int> minor = {};  ///< 0 for /dev/nvidia0; absent: not known
  bool operator==(const RankGpu&) const = default;
};

/// The CPUs that a rank owns: both sides, and what the plan leaves idle.
struct HomeSide {
  CpuSet cpus;
  int threads = 1;  ///< the right value of OMP_NUM_THREADS for a process that has the whole home: its cores
  bool operator==(const HomeSide&) const = default;
};

struct RankBinding {
  int rank = 0;                     ///< local rank
  std::optional<RankGpu> gpu = {};  ///< absent: the rank has none, or it is not known
  HomeSide home;
  TrainingSide training;
  OptimizerSide optimizer;
  int pt_reserved_cores = 0;  ///< cores, not PUs; 0 if shared, because training has no core of its own
  double pt_reserved_cores_perc =
      0;  ///< (training PUs - 0.5) / all PUs of the rank; DeepSpeed rounds it to the training PUs
  bool shared = false;  ///< training has the whole home, and the pool runs on some of the same CPUs
  CpuSet both_sides() const { return training.cpus | optimizer.cpus; }
  bool operator==(const RankBinding&) const = default;
};

/// How much the workload may differ from what was told before the plan costs 5 %.
struct Headroom {
  double training_speedup = 1;  ///< how many times faster training may be
  double step_slowdown = 1;     ///< how many times longer the optimizer step may take
  bool operator==(const Headroom&) const = default;
};

struct Choice {
  std::string reason;
  int candidate = -1;                     ///< CandidateEvidence::id; -1: nothing was measured
  Nanoseconds period_ns_median = 0;       ///< 0: nothing was measured
  int pool_threads = 0;                   ///< per rank; the largest of any rank
  std::optional<Headroom> headroom = {};  ///< absent: not known
  bool operator==(const Choice&) const = default;
};

struct Plan {
  std::string schema = kPlanSchema;  ///< as it was read; a plan is always written as kPlanSchema
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
