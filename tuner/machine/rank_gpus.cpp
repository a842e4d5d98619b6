#include "machine/rank_gpus.hpp"

#include <map>

#include "base/format.hpp"
#include "launchers/local_rank.hpp"
#include "machine/unread_lists.hpp"
#include "text/units.hpp"

namespace zf {
namespace {

/// Replaces each GPU that a list selects which is not read here by that reason.
void forget_gpus_of_unread_lists(const Environment& environment, FoundGpus& found) {
  for (auto& one : found) {
    const Gpu* const gpu = one ? std::get_if<Gpu>(&*one) : nullptr;
    const auto variable = gpu != nullptr ? unread_list(environment, gpu->vendor_id) : std::nullopt;
    if (variable) one = format_text("{} is set, and zf-tune does not read which GPUs it selects", *variable);
  }
}

}  // namespace

FoundGpus found_gpus(const Environment& environment, const Topology& topology, int ranks) {
  const Environment variables = topology.is_this_machine ? environment : Environment();
  const GpuLookup lookup(variables, topology);
  const auto visible = visible_devices(variables, runtime_of(topology));
  const auto slurm = slurm_gpus(variables);
  const auto& list = visible ? visible : slurm;
  FoundGpus found(static_cast<std::size_t>(ranks));
  if (list ? list->ids.empty() : lookup.count() == 0) return found;

  const std::size_t count = list ? list->ids.size() : lookup.count();
  const auto own_rank = visible && count < found.size() ? local_rank(variables) : std::nullopt;
  // A number under Slurm may count the step's GPUs, or those of this task.
  const bool own_numbers = own_rank && slurm && parse_number<std::size_t>(visible->ids.front());
  for (std::size_t rank = 0; rank < found.size(); ++rank) {
    if (own_rank && (own_numbers || static_cast<std::size_t>(own_rank->value) != rank)) {
      found[rank] = format_text(
          "{} is set for the task of rank {}; make the plan outside srun, or with srun --gpu-bind=none",
          list->variable, own_rank->value);
    } else if (const std::size_t at = own_rank ? 0 : rank; at >= count) {
      found[rank] = format_text("{} {} for {}", list ? list->variable + " lists" : "this machine has",
                                print_count(count, "GPU"), print_count(found.size(), "rank"));
    } else {
      found[rank] = visible ? lookup.find(visible->ids[at], visible->variable)
                    : slurm ? lookup.of_step(at)
                            : lookup.in_framework_order(at);
    }
  }
  forget_gpus_of_unread_lists(variables, found);
  return found;
}

RankGpus to_rank_gpus(const FoundGpus& found) {
  RankGpus result;
  std::map<std::string, std::vector<int>> ranks_by_reason;
  for (const auto& one : found) {
    const auto rank = static_cast<int>(result.gpus.size());
    result.gpus.emplace_back();
    if (!one) continue;
    if (const Gpu* gpu = std::get_if<Gpu>(&*one)) {
      result.gpus.back() = *gpu;
    } else {
      ranks_by_reason[std::get<std::string>(*one)].push_back(rank);
    }
  }
  for (const auto& [reason, ranks] : ranks_by_reason) {
    result.notes.push_back(
        ranks.size() == 1
            ? format_text("the GPU of rank {} is not known: {}", ranks.front(), reason)
            : format_text("the GPUs of ranks {} are not known: {}", join_text(ranks, ","), reason));
  }
  return result;
}

RankGpus rank_gpus(const Environment& environment, const Topology& topology, int ranks) {
  return to_rank_gpus(found_gpus(environment, topology, ranks));
}

}  // namespace zf
