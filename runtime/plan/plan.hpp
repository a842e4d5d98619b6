// The plan as values, field for field as in configs/plan.schema.json. A header that needs only a part of it
// includes that part.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/state_format.hpp"
#include "plan/choice.hpp"
#include "plan/evidence.hpp"
#include "plan/gpu_places.hpp"
#include "plan/gpu_share.hpp"
#include "plan/machine_class.hpp"
#include "plan/rank_binding.hpp"
#include "plan/split_kind.hpp"
#include "plan/trial_result.hpp"
#include "plan/workload.hpp"

namespace zf {

/// The version of the format that this code writes.
inline constexpr const char* kPlanSchema = "zf-plan/2";

struct Provenance {
  std::string by;  ///< "zf-tune 0.1.0"
  std::string at;  ///< UTC, "2026-11-20T21:00:00Z"
  std::string host;
  std::string command;  ///< as typed
  bool operator==(const Provenance&) const = default;
};

/// The part of a plan that stays valid in another allocation of the same machine class.
struct Intent {
  Placement placement = Placement::compact;
  int pool_pus_per_core = 1;     ///< 1: one PU of each core; else all siblings
  int pool_cores = 0;            ///< per rank: what was chosen
  double reserved_fraction = 0;  ///< of a home's cores
  double idle_fraction = 0;      ///< of a home's cores: left to neither side
  /// The make of the pool's cores, 0: the slowest. Makes with capacities that differ by at most 10 % are one,
  /// and cores that are fast or slow today are no make of their own. Absent: the slowest cores first.
  std::optional<int> pool_make;
  bool for_deepspeed = false;  ///< restricted to splits that DeepSpeed can be told
  bool isolated = false;       ///< homes may have CPUs that the kernel isolates (--isolated)
  bool own_cpus = false;       ///< --allowed says that the CPUs are the job's own, whatever the quota
  bool shared = false;  ///< training has the whole home, and the pool runs on all or some of the same cores
  StateFormat state_format = StateFormat::fp32;
  int gpus_per_rank = 0;  ///< as in GpuShare
  int ranks_per_gpu = 0;
  GpuShare gpu_share() const { return {gpus_per_rank, ranks_per_gpu}; }
  bool operator==(const Intent&) const = default;
};

struct Plan {
  std::string schema = kPlanSchema;  ///< as it was read; a plan is always written as kPlanSchema
  Provenance made;
  MachineClass machine;
  /// The second part of the plan's identity; absent: not known. A plan of other places is refitted.
  std::optional<GpuPlaces> gpus = {};
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

}  // namespace zf
