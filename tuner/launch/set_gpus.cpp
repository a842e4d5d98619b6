// The variables of zf-tune exec --set-gpus.
#include "launch/launch_parts.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "base/format.hpp"
#include "base/text.hpp"
#include "gpus/spread.hpp"

namespace zf {
namespace {

/// The variables by which users and launchers choose GPUs.
constexpr std::array kChoices = {"CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES",
                                 "SLURM_STEP_GPUS", "SLURM_JOB_GPUS"};

/// Returns "CUDA_VISIBLE_DEVICES=4,5", the first that is set; nothing if none is.
std::optional<std::string> chosen_already(const Environment& environment) {
  for (const char* const name : kChoices) {
    if (const auto value = environment.get(name)) return format_text("{}={}", name, *value);
  }
  return std::nullopt;
}

bool all_spread(const Plan& plan) {
  return std::ranges::all_of(plan.ranks, [](const RankBinding& rank) { return rank.spread_gpu.has_value(); });
}

/// Returns the GPUs in the order of the ranks; nothing if one is not known.
std::vector<RankGpu> gpus_in_order(const Plan& plan, bool spread) {
  const auto each = static_cast<std::size_t>(plan.intent.gpu_share().gpus_of_rank());
  std::vector<RankGpu> gpus;
  for (const RankBinding& rank : plan.ranks) {
    const std::vector<RankGpu> own = spread ? std::vector{*rank.spread_gpu} : gpus_of(rank);
    if (own.size() != (spread ? 1 : each)) return {};
    gpus.insert(gpus.end(), own.begin(), own.end());
  }
  return gpus;
}

GpuSetting nothing(const std::string& why) { return {{}, "--set-gpus sets nothing: " + why}; }

}  // namespace

GpuSetting gpu_setting(const Plan& plan, int ranks, std::string_view host, const Environment& environment) {
  if (const auto chosen = chosen_already(environment)) return nothing(*chosen + " is kept");
  if (plan.ranks.size() != static_cast<std::size_t>(ranks)) {
    return nothing(format_text("the plan is for {}, and {} {} here", print_count(plan.ranks.size(), "rank"),
                               ranks, ranks == 1 ? "runs" : "run"));
  }
  if (plan.intent.gpu_share().ranks_on_gpu() > 1) return nothing("by the plan several ranks have one GPU");
  const bool spread = all_spread(plan);
  const std::vector<RankGpu> gpus = gpus_in_order(plan, spread);
  if (gpus.empty()) return nothing("the plan does not say which GPU each rank has");
  auto variables = variables_of_gpus(gpus, plan.made.host == host);
  if (variables.empty()) {
    return nothing(
        "the plan has no names of its GPUs that CUDA or ROCm knows on this host; `zf-tune plan --from` adds "
        "them");
  }
  const auto order = environment.get("CUDA_DEVICE_ORDER");
  if (order && variables.contains("CUDA_DEVICE_ORDER") && *order != variables["CUDA_DEVICE_ORDER"])
    return nothing(
        format_text("CUDA_DEVICE_ORDER={} is kept, and the plan's numbers are in PCI order", *order));
  std::string note =
      format_text("{} for all ranks{}", in_words(variables),
                  spread ? ": their GPUs are spread over the packages, and the homes are near them" : "");
  return {std::move(variables), std::move(note), spread};
}

std::string offered_gpus(const Plan& plan, int ranks, std::string_view host, const Environment& environment) {
  const GpuSetting offer = gpu_setting(plan, ranks, host, environment);
  if (!offer.spreads) return {};
  return format_text(
      "the plan offers GPUs that spread the ranks over the packages: --set-gpus sets {} and moves the homes "
      "near them, if each rank uses one GPU",
      in_words(offer.variables));
}

Plan with_spread_gpus(Plan plan) {
  for (RankBinding& rank : plan.ranks) rank.gpu = std::exchange(rank.spread_gpu, std::nullopt);
  return plan;
}

}  // namespace zf
