#include "gpus/rank_gpus.hpp"

#include <algorithm>
#include <map>
#include <span>

#include "base/format.hpp"
#include "gpus/gpu_lists.hpp"
#include "gpus/spread.hpp"
#include "launchers/local_rank.hpp"
#include "text/units.hpp"

namespace zf {
namespace {

/// Replaces each GPU that a list selects which is not read here by that reason.
void forget_gpus_of_unread_lists(const Environment& environment, FoundGpus& found) {
  for (auto& one : found) {
    const Gpu* const gpu = gpu_in(one);
    const auto variable = gpu != nullptr ? unread_list(environment, gpu->vendor_id) : std::nullopt;
    if (variable) one = format_text("{} is set, and zf-tune does not read which GPUs it selects", *variable);
  }
}

/// Returns "4 ranks have 8 GPUs (CUDA_VISIBLE_DEVICES): …".
std::string one_gpu_note(std::size_t ranks, std::size_t gpus, const VisibleDevices* list) {
  const std::size_t each = gpus / ranks;
  const bool one = ranks == 1;
  std::string text = format_text("{} {} {}{}: {} is taken to use GPU {} alone", print_count(ranks, "rank"),
                                 one ? "has" : "have", print_count(gpus, "GPU"),
                                 list != nullptr ? format_text(" ({})", list->variable) : "",
                                 one ? "it" : "rank i", one ? "0" : "i");
  if (each > 1)
    text += format_text("; --gpus-per-rank {} gives {} {}", each, one ? "it" : "each rank",
                        one ? "all" : std::to_string(each));
  return text;
}

/// Offers to spread the ranks over packages, if that is possible and its variables are known.
void offer_spread(const Topology& topology, const GpuLookup& devices, RankGpus& ranks) {
  std::vector<Gpu> all;
  for (std::size_t i = 0; i < devices.count(); ++i) {
    const FoundGpu one = devices.at(i);
    if (gpu_in(one) == nullptr) return;
    all.push_back(*gpu_in(one));
  }
  std::vector<Gpu> spread = spread_over_packages(topology, all, static_cast<int>(ranks.gpus.size()));
  std::vector<RankGpu> named;
  for (const Gpu& gpu : spread) named.push_back(planned_gpu(gpu));
  const auto variables = variables_of_gpus(named, true);
  if (variables.empty()) return;
  const auto first = gpus_by_package(topology, all, spread.size());
  const auto offered = gpus_by_package(topology, spread, spread.size());
  const std::string where =
      first.size() < offered.size()
          ? format_text("these GPUs are near {}: `zf-tune exec --set-gpus` spreads the ranks over {}",
                        print_count(first.size(), "package"), offered.size())
          : format_text(
                "{} of these GPUs are near one package, and cores of another one fill their ranks' "
                "homes: `zf-tune exec --set-gpus` spreads the ranks, at most {} to a package",
                most_in_a_package(first), most_in_a_package(offered));
  ranks.spread_note = format_text(
      "{}, by {} for all ranks (entry i is the GPU of rank i); if you set that yourself, make the plan with "
      "it",
      where, in_words(variables));
  ranks.spread = std::move(spread);
}

}  // namespace

bool all_known(const FoundGpus& found) { return std::ranges::all_of(found, gpu_in); }

FoundGpus found_gpus(const Environment& environment, const Topology& topology, int ranks, GpuShare share) {
  const Environment variables = variables_for(environment, topology);
  const GpuLookup devices(variables, topology, share);
  const auto each = static_cast<std::size_t>(share.gpus_of_rank());
  FoundGpus found(static_cast<std::size_t>(ranks) * each);
  if (devices.count() == 0) return found;

  const bool too_few = devices.count() < devices.needed(found.size());
  const auto own_rank = devices.is_visible_list() && too_few ? local_rank(variables) : std::nullopt;
  const bool own_numbers = own_rank && devices.is_doubtful_of_task();
  for (std::size_t place = 0; place < found.size(); ++place) {
    const std::size_t rank = place / each;
    const std::size_t at = own_rank ? place % each : place / devices.ranks_on_one();
    if (own_rank && (own_numbers || static_cast<std::size_t>(own_rank->value) != rank)) {
      found[place] = format_text(
          "{} is set for the task of rank {}; make the plan outside srun, or with srun --gpu-bind=none",
          devices.list()->variable, own_rank->value);
    } else if (own_rank ? at >= devices.count() : too_few) {
      found[place] = devices.too_few(static_cast<std::size_t>(ranks), share);
    } else {
      found[place] = devices.at(at);
    }
  }
  forget_gpus_of_unread_lists(variables, found);
  return found;
}

RankGpus to_rank_gpus(const FoundGpus& found, GpuShare share) {
  RankGpus result;
  result.share = share;
  const auto each = static_cast<std::size_t>(share.gpus_of_rank());
  std::map<std::string, std::vector<int>> ranks_by_reason;
  for (std::size_t first = 0; first < found.size(); first += each) {
    const auto rank = static_cast<int>(result.gpus.size());
    std::vector<Gpu> gpus;
    std::string reason;  // the first one
    for (const auto& one : std::span(found).subspan(first, each)) {
      if (const Gpu* const gpu = gpu_in(one)) {
        gpus.push_back(*gpu);
      } else if (const auto* const why = std::get_if<std::string>(&one); why != nullptr && reason.empty()) {
        reason = *why;
      }
    }
    result.gpus.emplace_back();
    if (each > 1) result.more.emplace_back();
    if (!reason.empty()) ranks_by_reason[reason].push_back(rank);
    if (gpus.size() < each) continue;
    result.gpus.back() = gpus.front();
    if (each > 1) result.more.back().assign(gpus.begin() + 1, gpus.end());
  }
  for (const auto& [reason, ranks] : ranks_by_reason) {
    result.notes.push_back(
        ranks.size() == 1
            ? format_text("the GPU of rank {} is not known: {}", ranks.front(), reason)
            : format_text("the GPUs of ranks {} are not known: {}", join_text(ranks, ","), reason));
  }
  return result;
}

void note_unused_gpus(const Environment& environment, const Topology& topology, RankGpus& ranks) {
  const Environment variables = variables_for(environment, topology);
  const GpuLookup devices(variables, topology, ranks.share);
  const std::size_t places = ranks.gpus.size() * static_cast<std::size_t>(ranks.share.gpus_of_rank());
  const std::size_t needed = devices.needed(places);
  const auto is_known = [](const auto& gpu) { return gpu.has_value(); };
  if (devices.count() <= needed || !std::ranges::all_of(ranks.gpus, is_known)) return;
  if (ranks.share.is_given()) {
    const bool are_divided = std::ranges::any_of(topology.gpus, [](const Gpu& gpu) { return gpu.parts > 1; });
    ranks.notes.push_back(format_text("{} of {} {} {} no rank", devices.count() - needed, devices.count(),
                                      are_divided ? "parts of GPUs" : "GPUs",
                                      devices.count() - needed == 1 ? "has" : "have"));
    return;
  }
  ranks.notes.push_back(one_gpu_note(ranks.gpus.size(), devices.count(), devices.list()));
  if (devices.list() == nullptr) offer_spread(topology, devices, ranks);
}

RankGpus rank_gpus(const Environment& environment, const Topology& topology, int ranks, GpuShare share) {
  RankGpus result = to_rank_gpus(found_gpus(environment, topology, ranks, share), share);
  note_unused_gpus(environment, topology, result);
  return result;
}

bool is_spread_near(const RankGpus& gpus, const CpuSet& allowed) {
  return !gpus.spread.empty() &&
         std::ranges::all_of(gpus.spread, [&](const Gpu& gpu) { return gpu.local_cpus.intersects(allowed); });
}

std::optional<Gpu> place_of_gpus(const RankGpus& gpus, std::size_t rank) {
  std::optional<Gpu> place = gpus.gpus[rank];
  if (!place || gpus.more.empty()) return place;
  for (const Gpu& gpu : gpus.more[rank]) {
    place->local_cpus |= gpu.local_cpus;
    if (gpu.node != place->node) place->node.reset();
  }
  return place;
}

}  // namespace zf
