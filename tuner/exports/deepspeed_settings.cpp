#include "exports/deepspeed_settings.hpp"

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/format.hpp"
#include "exports/json_splice.hpp"
#include "plan/json_fields.hpp"
#include "plan/reserved_perc.hpp"

namespace zf {
namespace {

constexpr const char* kZero = "zero_optimization";
constexpr const char* kZenFlow = "zenflow";
constexpr const char* kSuperOffload = "offload_optimizer";

constexpr double kUsualReserved = 0.5;   // ZenFlowConfig.pt_reserved_cores_perc
constexpr double kUsualOptimizer = 0.8;  // DeepSpeedZeroOffloadOptimizerConfig.cpuadam_cores_perc

constexpr std::string_view kOnlyJson =
    "DeepSpeed reads Hjson too, but zf-tune only JSON: remove comments and trailing commas";

/// Returns cpuadam_cores_perc. SuperOffload leaves int((1 - perc) * all_pus) CPUs to training, rounded
/// towards zero; the value here aims half a PU higher. Precondition: 1 <= training_pus < all_pus.
double superoffload_perc(int training_pus, int all_pus) { return (all_pus - training_pus - 0.5) / all_pus; }

/// Returns a section of "zero_optimization"; nothing if it is absent or null.
std::optional<Field> section_of(const Field& root, std::string_view name) {
  if (!root.has(kZero)) return std::nullopt;
  const Field zero = root[kZero];
  if (!zero.has(name) || zero[name].is_null()) return std::nullopt;
  return zero[name].need_object();
}

bool is_on(const std::optional<Field>& section, std::string_view key) {
  return section && section->has(key) && (*section)[key].boolean();
}

}  // namespace

DeepSpeedOptimizer deepspeed_optimizer(const Plan& plan) {
  switch (plan.workload.framework) {
    case Framework::deepspeed_zenflow:
      return {Framework::deepspeed_zenflow, plan.workload.mode == Mode::overlap};
    case Framework::superoffload:
    case Framework::unknown:
      return {plan.workload.framework, true};
    default:
      return {plan.workload.framework, false};
  }
}

DeepSpeedOptimizer deepspeed_optimizer(const ConfigFile& config) {
  const std::string name = config.path.string();
  const JsonDocument document(config.text, name, kOnlyJson);
  const auto zenflow = section_of(document.root().need_object(), kZenFlow);
  const bool superoffload = is_on(section_of(document.root(), kSuperOffload), "super_offload");
  if (zenflow && superoffload) {
    throw Error(
        Exit::infeasible,
        format_text("{} has both ZenFlow and SuperOffload: each would divide the CPUs of a rank", name),
        "keep one of them");
  }
  if (zenflow) return {Framework::deepspeed_zenflow, is_on(zenflow, "overlap_step")};
  if (superoffload) return {Framework::superoffload, true};
  return {Framework::deepspeed_offload, false};
}

std::vector<DeepSpeedSetting> deepspeed_settings(const RankBinding& rank,
                                                 const DeepSpeedOptimizer& optimizer) {
  const auto training = static_cast<int>(rank.training.cpus.size());
  const auto all = static_cast<int>(rank.both_sides().size());
  const bool any = optimizer.framework == Framework::unknown;
  std::vector<DeepSpeedSetting> settings;
  if (any || optimizer.framework == Framework::deepspeed_zenflow) {
    settings.push_back({"ZenFlow", kZenFlow, "pt_reserved_cores_perc", rank.pt_reserved_cores_perc,
                        kUsualReserved, pus_deepspeed_reserves(kUsualReserved, all)});
  }
  if ((any || optimizer.framework == Framework::superoffload) && !rank.shared) {
    settings.push_back({"SuperOffload", kSuperOffload, "cpuadam_cores_perc", superoffload_perc(training, all),
                        kUsualOptimizer, static_cast<int>((1 - kUsualOptimizer) * all)});
  }
  return settings;
}

std::string path_of(const DeepSpeedSetting& setting) {
  return format_text("{}.{}.{}", kZero, setting.section, setting.key);
}

MergedConfig merged(const ConfigFile& config, const DeepSpeedSetting& setting) {
  const JsonSplice section(config.text, {kZero, setting.section});
  MergedConfig result;
  if (const auto former = section.find(setting.key)) result.former = print_json_line(Object::parse(*former));
  result.text = section.with(setting.key, print_json_line(setting.value));
  return result;
}

}  // namespace zf
