#include "machine/rank_count.hpp"

#include "base/error.hpp"
#include "base/format.hpp"
#include "gpus/gpu_lists.hpp"
#include "gpus/gpu_lookup.hpp"
#include "launchers/launcher.hpp"
#include "launchers/local_rank.hpp"
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

/// The GPUs of this node that the job may use, as a number.
struct GpuCount {
  int count = 0;
  std::string source;        ///< "8 GPUs", "CUDA_VISIBLE_DEVICES"
  bool of_one_task = false;  ///< a launcher may have given this list to one task
};

GpuCount count_gpus(const Environment& variables, const Topology& topology) {
  auto visible = visible_devices(variables, runtime_of(topology));
  const std::vector<Gpu> usable = usable_gpus(topology);
  if (!visible) visible = countable_list(variables, usable);
  if (visible) {
    return {static_cast<int>(visible->ids.size()), visible->variable, local_rank(variables).has_value()};
  }
  return {static_cast<int>(usable.size()), print_count(usable.size(), "GPU")};
}

/// Returns the option as the user wrote it: "--gpus-per-rank 2".
std::string option_of(GpuShare share) {
  return share.gpus_per_rank != 0 ? format_text("--gpus-per-rank {}", share.gpus_per_rank)
                                  : format_text("--ranks-per-gpu {}", share.ranks_per_gpu);
}

/// Throws Error(usage) if nothing can be meant by the share on this machine, whatever the number of ranks.
void need_meaning(GpuShare share, const GpuCount& gpus, const Topology& topology) {
  if (share.gpus_per_rank != 0 && share.ranks_per_gpu != 0) {
    throw Error(Exit::usage, "--gpus-per-rank and --ranks-per-gpu contradict each other", "give one of them");
  }
  if (gpus.count == 0) {
    throw Error(Exit::usage, format_text("{}: no GPU that this job can use is known here", option_of(share)),
                "leave it out; zf-tune probe shows the GPUs");
  }
  for (const Gpu& gpu : usable_gpus(topology)) {
    if (share.ranks_per_gpu % gpu.parts == 0 && (gpu.parts == 1 || share.gpus_per_rank == 0)) continue;
    throw Error(
        Exit::usage,
        format_text("{}: GPU {} is divided into {} parts", option_of(share), gpu.pci_address, gpu.parts),
        format_text("give --ranks-per-gpu {}, which gives a rank to each part", gpu.parts));
  }
}

/// Returns how many ranks the GPUs have places for. If entries of a list are parts of GPUs, each has as many
/// ranks as a part.
int places_on(const GpuCount& gpus, GpuShare share, const Topology& topology, const Environment& variables) {
  if (share.gpus_per_rank != 0) return gpus.count / share.gpus_per_rank;
  const auto visible = visible_devices(variables, runtime_of(topology));
  const bool of_mig = visible && !visible->ids.empty() && visible->ids.front().starts_with("MIG-");
  if (of_mig) return gpus.count;
  const auto usable = usable_gpus(topology);
  const int parts = visible && !usable.empty() ? usable.front().parts : 1;
  return gpus.count * share.ranks_on_gpu() / parts;
}

/// Throws Error(usage) if the ranks need more GPUs than there are. A list of one task says nothing of others.
void need_fit(int ranks, const GpuCount& gpus, GpuShare share, int places) {
  const bool own_list = gpus.of_one_task && gpus.count == share.gpus_of_rank();
  if (ranks <= places || own_list) return;
  throw Error(
      Exit::usage,
      format_text(
          "{}: {} {} {}, and {} {}", option_of(share), print_count(static_cast<std::size_t>(ranks), "rank"),
          ranks == 1 ? "needs" : "need",
          print_count(static_cast<std::size_t>(share.gpus_per_rank != 0
                                                   ? ranks * share.gpus_per_rank
                                                   : (ranks + share.ranks_per_gpu - 1) / share.ranks_per_gpu),
                      "GPU"),
          gpus.source.ends_with("DEVICES") ? gpus.source + " lists" : "this node has", gpus.count),
      format_text("there is room for {}: give --ranks or the option another number",
                  print_count(static_cast<std::size_t>(places), "rank")));
}

/// Returns the number of ranks that are given, or that a launcher says; nothing if neither.
std::optional<RankCount> said_count(std::optional<int> given, const std::optional<EnvNumber>& launched) {
  if (given) return RankCount{*given, kGiven};
  if (launched && !may_be_launcher(*launched)) return RankCount{launched->value, launched->variable};
  return std::nullopt;
}

/// Returns the number of ranks that the GPUs make. Throws Error(usage) if they cannot be divided so.
RankCount count_by_gpus(const GpuCount& gpus, GpuShare share, int places) {
  if (!share.is_given()) return {gpus.count, gpus.source};
  if (share.gpus_per_rank != 0 && gpus.count % share.gpus_per_rank != 0) {
    throw Error(Exit::usage, format_text("{}: {} GPUs cannot be divided so", option_of(share), gpus.count),
                gpus.count < share.gpus_per_rank ? format_text("give a rank {} at most", gpus.count)
                                                 : "say with --ranks how many ranks there are");
  }
  return {places, format_text("{}, {}", gpus.source, option_of(share))};
}

}  // namespace

RankCount rank_count_of(std::optional<int> given, const Environment& environment, const Topology& topology,
                        GpuShare share) {
  if (given && !share.is_given()) return {*given, kGiven};
  const Environment variables = variables_for(environment, topology);
  const GpuCount gpus = count_gpus(variables, topology);
  auto launched = given ? std::nullopt : local_rank_count(variables, runtime_of(topology));
  if (launched && launched->variable == gpus.source)
    launched.reset();  // a list of GPUs, which count_gpus() has
  auto said = said_count(given, launched);
  int places = gpus.count;
  if (share.is_given()) {
    need_meaning(share, gpus, topology);
    places = places_on(gpus, share, topology, variables);
    if (said) need_fit(said->count, gpus, share, places);
  }
  if (said) return *std::move(said);
  if (!launched && gpus.count > 0) return count_by_gpus(gpus, share, places);
  if (!launched) return {1, kDefault};
  if (gpus.count < 2) return {1, launched->variable};
  RankCount ranks = count_by_gpus(gpus, share, places);
  ranks.source += format_text("; {}=1 may count launchers", launched->variable);
  return ranks;
}

std::string rank_count_note(const RankCount& ranks) {
  if (ranks.source == kGiven || ranks.source == kDefault) return "";
  return format_text("{} ({}; --ranks changes it)",
                     print_count(static_cast<std::size_t>(ranks.count), "rank"), ranks.source);
}

}  // namespace zf
