#include "tuner/rank_count.hpp"

#include <fmt/core.h>

#include <algorithm>

namespace zf {

RankCount rank_count_of(std::optional<int> given, const Environment& environment, const Topology& topology) {
  if (given) return {*given, "--ranks"};
  if (!topology.is_this_machine) return {1, "default"};
  if (const auto found = local_rank_count(environment)) return {found->value, found->variable};
  const bool hidden = visible_devices(environment).has_value();  // to none, or it would have been counted
  const auto gpus = static_cast<int>(
      std::count_if(topology.gpus.begin(), topology.gpus.end(), [](const Gpu& gpu) { return gpu.usable; }));
  if (gpus > 0 && !hidden) return {gpus, fmt::format("{} GPU{}", gpus, gpus == 1 ? "" : "s")};
  return {1, "default"};
}

}  // namespace zf
