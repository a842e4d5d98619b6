#include "machine/rank_count.hpp"

#include "machine/gpu_lookup.hpp"
#include "text/units.hpp"

namespace zf {

RankCount rank_count_of(std::optional<int> given, const Environment& environment, const Topology& topology) {
  if (given) return {*given, "--ranks"};
  const Environment variables = topology.is_this_machine ? environment : Environment();
  const GpuRuntime runtime = runtime_of(topology);
  if (const auto found = local_rank_count(variables, runtime)) return {found->value, found->variable};
  const bool hidden =
      visible_devices(variables, runtime).has_value();  // hides all: otherwise it was counted above
  const std::size_t gpus = usable_gpus(topology).size();
  if (gpus > 0 && !hidden) return {static_cast<int>(gpus), print_count(gpus, "GPU")};
  return {1, "default"};
}

}  // namespace zf
