#include "machine/rank_count.hpp"

#include "base/format.hpp"
#include "launchers/launcher.hpp"
#include "launchers/local_rank.hpp"
#include "machine/gpu_lookup.hpp"
#include "machine/unread_lists.hpp"
#include "text/units.hpp"

namespace zf {
namespace {

constexpr const char* kGiven = "--ranks";
constexpr const char* kDefault = "default";

/// Returns true if this one rank may be a launcher that starts the ranks, such as torchrun.
bool may_be_launcher(const EnvNumber& count) {
  const Launcher* const launcher = launcher_of(count.variable);
  return count.value == 1 && launcher != nullptr && launcher->may_start_launchers;
}

}  // namespace

RankCount rank_count_of(std::optional<int> given, const Environment& environment, const Topology& topology) {
  if (given) return {*given, kGiven};
  const Environment variables = topology.is_this_machine ? environment : Environment();
  const GpuRuntime runtime = runtime_of(topology);
  const auto found = local_rank_count(variables, runtime);
  const bool one_task = found && may_be_launcher(*found);
  if (found && !one_task) return {found->value, found->variable};
  auto visible = visible_devices(variables, runtime);
  if (!visible) visible = countable_list(variables, topology);
  const std::size_t gpus = visible ? visible->ids.size() : usable_gpus(topology).size();
  std::string source = visible ? visible->variable : print_count(gpus, "GPU");
  if (!one_task) return gpus > 0 ? RankCount{static_cast<int>(gpus), source} : RankCount{1, kDefault};
  if (gpus < 2) return {1, found->variable};
  return {static_cast<int>(gpus), format_text("{}; {}=1 may count launchers", source, found->variable)};
}

std::string rank_count_note(const RankCount& ranks) {
  if (ranks.source == kGiven || ranks.source == kDefault) return "";
  return format_text("{} ({}; --ranks changes it)",
                     print_count(static_cast<std::size_t>(ranks.count), "rank"), ranks.source);
}

}  // namespace zf
