// What DeepSpeed makes of a plan: the settings of its configuration that divide the CPUs of a rank, and what
// it does beside the plan. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "exports/export.hpp"
#include "plan/plan.hpp"

namespace zf {

/// Who runs the optimizer step of a DeepSpeed job, as far as it is known.
struct DeepSpeedOptimizer {
  Framework framework = Framework::unknown;
  bool divides = false;  ///< it divides the CPUs of its rank by itself; if unknown, it may
};

/// Returns what a plan says. ZenFlow divides in mode overlap.
DeepSpeedOptimizer deepspeed_optimizer(const Plan& plan);

/// Returns what a configuration says: ZenFlow, SuperOffload, or ZeRO-Offload if it is neither. ZenFlow
/// divides only with overlap_step. Throws Error(usage) with file and position if the text is not JSON, or a
/// field has the wrong type; Error(infeasible) if both are on, because each would divide the CPUs.
DeepSpeedOptimizer deepspeed_optimizer(const ConfigFile& config);

/// One number of "zero_optimization", which turns the CPUs of a rank into the plan's two sides.
struct DeepSpeedSetting {
  std::string optimizer;  ///< "ZenFlow"
  std::string section;    ///< "zenflow"
  std::string key;        ///< "pt_reserved_cores_perc"
  double value = 0;
  double usual = 0;        ///< DeepSpeed's default
  int usual_training = 0;  ///< how many CPUs of the rank the default gives to training
};

/// Returns the settings by which ZenFlow and SuperOffload make the sides of `rank`: that of the optimizer, or
/// both if it is unknown. SuperOffload has none for a shared rank.
std::vector<DeepSpeedSetting> deepspeed_settings(const RankBinding& rank,
                                                 const DeepSpeedOptimizer& optimizer);

/// Returns "zero_optimization.zenflow.pt_reserved_cores_perc".
std::string path_of(const DeepSpeedSetting& setting);

/// A configuration with a setting, and the value that it had before, as text; nothing if it had none.
struct MergedConfig {
  std::string text;
  std::optional<std::string> former;
};

/// Returns the configuration with the setting. All other bytes stay as they are.
/// Precondition: deepspeed_optimizer() accepts it and names the setting's optimizer.
MergedConfig merged(const ConfigFile& config, const DeepSpeedSetting& setting);

/// Returns what DeepSpeed 0.19.8 does to these ranks beside or against the plan, one sentence each, with
/// numbers: threads, memory policy, threads that are not moved, GPUs. Empty if there is nothing. The plan
/// does not have the CPUs of each NUMA node: a rank counts as inside one node if its memory is one node.
/// Precondition: why_not_deepspeed() accepts the ranks.
std::vector<std::string> deepspeed_differences(const Plan& plan, const DeepSpeedOptimizer& optimizer);

}  // namespace zf
