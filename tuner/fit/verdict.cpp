#include "fit/verdict.hpp"

#include <algorithm>
#include <array>

#include "base/cpu_list.hpp"
#include "base/error.hpp"
#include "base/format.hpp"
#include "base/text.hpp"

namespace zf {
namespace {

/// A job at its limit has no room for page tables and for the file cache that its checkpoint goes through.
constexpr double kTight = 1 / 1.08;

std::string print_gib(std::uint64_t bytes) {
  const double gib = static_cast<double>(bytes) / 0x1p30;
  return format_text("{:.{}f}", gib, gib < 100 ? 1 : 0);
}

void note_numa_nodes(const FitJob& job, const MemoryForecast& forecast, const NodeLimits& limits,
                     std::vector<std::string>& notes) {
  if (limits.nodes.size() < 2) return;
  const auto smallest = std::min_element(limits.nodes.begin(), limits.nodes.end(),
                                         [](const auto& a, const auto& b) { return a.bytes < b.bytes; });
  const auto ranks = static_cast<std::uint64_t>(job.ranks);
  const std::uint64_t together = (ranks + limits.nodes.size() - 1) / limits.nodes.size();
  const std::uint64_t needed = forecast.peak_bytes() / ranks * together;
  if (needed <= smallest->bytes) return;
  notes.push_back(
      format_text("NUMA node {} has {}, and {} near it {} {}: the rest comes from another node, slower, and "
                  "with a strict memory policy the job is killed.",
                  smallest->id.os_index, print_memory(smallest->bytes),
                  together == 1 ? std::string("a rank") : print_count(together, "rank"),
                  together == 1 ? "needs" : "need", print_memory(needed)));
}

}  // namespace

std::string_view phase_in_words(FitPhase phase) {
  constexpr std::array<std::string_view, kFitPhases> kWords{"at the start", "in the steady state",
                                                            "at the checkpoint", "at resume"};
  return kWords[static_cast<std::size_t>(phase)];
}

std::optional<std::string> shared_memory_shortage(const MemoryForecast& forecast,
                                                  const MemoryLimits& limits) {
  if (forecast.shared_memory_bytes == 0) return std::nullopt;
  const std::string needed = print_memory(forecast.shared_memory_bytes);
  if (limits.shared_memory_is_missing)
    return format_text("/dev/shm is not mounted, and this job keeps {} there", needed);
  if (!limits.shared_memory || *limits.shared_memory >= forecast.shared_memory_bytes) return std::nullopt;
  return format_text(
      "/dev/shm has room for {}, and this job keeps {} there: mount -o remount,size=... /dev/shm, "
      "or docker --shm-size",
      print_memory(*limits.shared_memory), needed);
}

std::string print_memory(std::uint64_t bytes) {
  if (bytes < std::uint64_t{1} << 30) return format_text("{:.0f} MiB", static_cast<double>(bytes) / 0x1p20);
  return print_gib(bytes) + " GiB";
}

NodeLimits limits_of(const Machine& machine, const MemoryLimits& limits,
                     const std::optional<ThreadPolicy>& policy) {
  const bool restricts =
      policy && (policy->policy == GivenPolicy::bind || policy->policy == GivenPolicy::interleave);
  const NodeSet mems = restricts ? machine.allowed.mems & policy->nodes : machine.allowed.mems;
  NodeLimits found;
  found.more = limits;
  std::uint64_t all = 0, allowed = 0;
  bool is_part = false;
  for (const NumaNode& node : machine.topology.nodes) {
    all += node.memory_bytes;
    if (!mems.contains(node.id)) {
      is_part = is_part || node.memory_bytes > 0;
      continue;
    }
    allowed += node.memory_bytes;
    if (!node.is_cpuless() && node.memory_bytes > 0) found.nodes.push_back({node.id, node.memory_bytes});
  }
  std::vector<Capacity> known;
  if (machine.allowed.memory_bytes) {
    const std::uint64_t used = std::min(limits.cgroup_used.value_or(0), *machine.allowed.memory_bytes);
    known.push_back({*machine.allowed.memory_bytes - used,
                     machine.allowed.memory_path.empty() ? "the memory limit" : machine.allowed.memory_path});
  }
  if (limits.available) known.push_back({*limits.available, "MemAvailable of /proc/meminfo"});
  if (is_part || (!limits.available && all > 0)) {
    known.push_back({allowed, is_part
                                  ? format_text("the memory of the allowed NUMA nodes ({}{})", print(mems),
                                                mems == machine.allowed.mems ? "" : ", by the memory policy")
                                  : "the memory of its NUMA nodes"});
  }
  if (limits.commit_left)
    known.push_back({*limits.commit_left, "CommitLimit of /proc/meminfo: vm.overcommit_memory is 2"});
  if (known.empty()) {
    throw Error(Exit::usage, format_text("{}: the size of its memory is not known", machine.topology.source),
                "give --memory, such as 512GiB");
  }
  found.capacity = *std::min_element(known.begin(), known.end(),
                                     [](const auto& a, const auto& b) { return a.bytes < b.bytes; });
  return found;
}

FitVerdict verdict_of(const FitJob& job, const MemoryForecast& forecast, const NodeLimits& limits) {
  FitVerdict verdict{
      .phase = forecast.worst(), .needed = forecast.peak_bytes(), .capacity = limits.capacity.bytes};
  const auto shared = shared_memory_shortage(forecast, limits.more);
  if (shared) verdict.problems.push_back(*shared + ".");
  verdict.fits = verdict.needed <= verdict.capacity && !shared;
  if (verdict.fits && static_cast<double>(verdict.needed) > kTight * static_cast<double>(verdict.capacity)) {
    verdict.problems.push_back(
        "It is tight: page tables, and the file cache of a checkpoint that is being written, need some "
        "percent "
        "more.");
  }
  note_numa_nodes(job, forecast, limits, verdict.problems);
  if (limits.more.locked_memory && *limits.more.locked_memory < forecast.pinned_bytes) {
    verdict.problems.push_back(
        format_text("{} are pinned, and {} may be locked (ulimit -l): CUDA pins all the same, and "
                    "DS_PIN_MEMORY_BACKEND=native does not.",
                    print_memory(forecast.pinned_bytes), print_memory(*limits.more.locked_memory)));
  }
  if (limits.more.huge_pages.value_or(0) > 0) {
    verdict.problems.push_back(format_text(
        "{} are reserved as huge pages, which this job cannot use: sysctl vm.nr_hugepages=0 frees "
        "them.",
        print_memory(*limits.more.huge_pages)));
  }
  return verdict;
}

std::string in_words(const FitVerdict& verdict) {
  const std::string of = format_text("{} of {} GiB", print_gib(verdict.needed), print_gib(verdict.capacity));
  if (verdict.fits) return format_text("fits: {} {}", of, phase_in_words(verdict.phase));
  if (verdict.needed <= verdict.capacity)
    return format_text("does not fit: /dev/shm is too small ({} {})", of, phase_in_words(verdict.phase));
  return format_text("does not fit: short of {} {} ({})", print_memory(verdict.needed - verdict.capacity),
                     phase_in_words(verdict.phase), of);
}

}  // namespace zf
