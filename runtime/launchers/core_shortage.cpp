#include "launchers/core_shortage.hpp"

#include <algorithm>
#include <string_view>
#include <vector>

#include "base/format.hpp"
#include "base/text.hpp"
#include "launchers/launcher.hpp"

namespace zf {
namespace {

/// With so many cores or fewer, a rank has no more than one for training and one for its optimizer.
constexpr double kFewCoresPerRank = 2;

bool excludes(const Allowed& allowed, ExclusionReason reason) {
  return std::any_of(allowed.exclusions.begin(), allowed.exclusions.end(),
                     [&](const Exclusion& exclusion) { return exclusion.reason == reason; });
}

/// Returns true if the launcher keeps CPUs, or time on them, from this job.
bool is_confined(const Allowed& allowed) {
  return allowed.cpu_quota || excludes(allowed, ExclusionReason::affinity_mask) ||
         excludes(allowed, ExclusionReason::cgroup_cpuset);
}

/// Returns true if Kubernetes has started this process.
bool in_pod(const Environment& environment, const Allowed& allowed) {
  const auto names_pods = [](const std::string& text) { return text.find("kubepods") != std::string::npos; };
  return environment.get("KUBERNETES_SERVICE_HOST") || names_pods(allowed.cpu_quota_path) ||
         std::any_of(allowed.exclusions.begin(), allowed.exclusions.end(),
                     [&](const Exclusion& exclusion) { return names_pods(exclusion.detail); });
}

std::string has_or_have(std::size_t ranks) {
  return format_text("{} {}", print_count(ranks, "rank"), ranks == 1 ? "has" : "have");
}

/// Returns what to do, besides running `fewer` ranks.
std::string remedy_of(const std::string& fewer, const Allowed& allowed) {
  if (!allowed.more_cpus.empty()) {
    return format_text("give the job more: {}{}{}", allowed.more_cpus, fewer.empty() ? "" : "; or ", fewer);
  }
  return fewer.empty() ? "allow more CPUs of this machine" : fewer + ", or allow more cores";
}

CoreShortage impossible(std::size_t ranks, std::size_t cores, const Allowed& allowed) {
  const std::string fewer =
      cores == 0 ? std::string() : format_text("run {} at most", print_count(cores, "rank"));
  return {format_text("{} {}, and each needs one of its own", has_or_have(ranks), print_count(cores, "core")),
          remedy_of(fewer, allowed), true};
}

}  // namespace

std::string how_to_unbind(const Environment& environment) {
  const bool in_slurm = environment.get("SLURM_JOB_ID").has_value();
  for (const Launcher& launcher : launchers()) {
    if (launcher.unbind == nullptr || !environment.get(launcher.rank)) continue;
    if (in_slurm && std::string_view(launcher.rank) == "PMI_LOCAL_RANK")
      continue;  // srun sets it for Cray MPICH
    return launcher.unbind;
  }
  if (in_slurm) return "srun --cpu-bind=none";
  if (environment.get("OMPI_COMM_WORLD_RANK")) return "mpirun --bind-to none";
  if (environment.get("TORCHELASTIC_RUN_ID")) return "torchrun without --numa-binding";
  return "a start without taskset, numactl -C or the like";
}

std::string how_to_get_cpus(const Environment& environment, const Allowed& allowed) {
  const bool masked = excludes(allowed, ExclusionReason::affinity_mask);
  const bool in_cpuset = excludes(allowed, ExclusionReason::cgroup_cpuset);
  std::vector<std::string> ways;
  if (masked) ways.push_back(how_to_unbind(environment));
  if (environment.get("SLURM_JOB_ID") && (masked || in_cpuset)) {
    ways.emplace_back("more --cpus-per-task for sbatch and srun");
  } else if ((in_cpuset || allowed.cpu_quota) && in_pod(environment, allowed)) {
    ways.emplace_back("a higher CPU limit of the pod (resources.limits.cpu)");
  } else {
    if (in_cpuset) ways.emplace_back("more CPUs in the cpuset (docker --cpuset-cpus)");
    if (allowed.cpu_quota)
      ways.emplace_back("a higher CPU quota (cpu.max, docker --cpus, a Kubernetes CPU limit)");
  }
  if (excludes(allowed, ExclusionReason::not_in_list)) ways.emplace_back("a longer --allowed");
  return join_text(ways, ", or ");
}

std::optional<CoreShortage> core_shortage(std::size_t ranks, std::size_t cores, const Allowed& allowed) {
  if (cores < ranks) return impossible(ranks, cores, allowed);
  const auto all = static_cast<double>(cores);
  const double quota = std::min(allowed.cpu_quota.value_or(all), all);
  const double each = quota / static_cast<double>(ranks);
  if (each > kFewCoresPerRank || (ranks == 1 && !is_confined(allowed))) return std::nullopt;
  const std::string what = quota < all ? format_text("the time of {:.4g} {} ({})", quota,
                                                     quota == 1 ? "CPU" : "CPUs", allowed.cpu_quota_path)
                                       : print_count(cores, "core");
  return CoreShortage{
      format_text("{} {}{}: an optimizer step may take many times as long", has_or_have(ranks), what,
                  ranks == 1 ? "" : format_text(", {:.2g} for each", each)),
      remedy_of(ranks == 1 ? "" : "run fewer ranks", allowed)};
}

std::string in_words(const CoreShortage& shortage) {
  return format_text("{}; {}", shortage.what, shortage.remedy);
}

Error too_few_cores(std::size_t ranks, std::size_t cores, const Allowed& allowed) {
  const CoreShortage shortage = impossible(ranks, cores, allowed);
  return {Exit::infeasible, shortage.what, shortage.remedy};
}

}  // namespace zf
