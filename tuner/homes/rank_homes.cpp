#include "homes/rank_homes.hpp"

#include <algorithm>
#include <cmath>

#include "base/cpu_list.hpp"
#include "base/format.hpp"
#include "base/text.hpp"
#include "gpus/spread.hpp"
#include "homes/deepspeed_homes.hpp"
#include "homes/mask_parts.hpp"
#include "homes/shared_homes.hpp"
#include "os/shared_cpus.hpp"

namespace zf {
namespace {

/// The smallest number of cores with which training and optimizer can be kept apart.
constexpr int kMinCoresPerRank = 2;

/// Returns true if it is known of each GPU of the rank which package it is near.
bool packages_are_known(const Topology& topology, const RankGpus& gpus, std::size_t rank) {
  const auto is_known = [&](const Gpu& gpu) { return package_of_cpus(topology, gpu.local_cpus).has_value(); };
  return is_known(*gpus.gpus[rank]) && (gpus.more.empty() || std::ranges::all_of(gpus.more[rank], is_known));
}

Preference preference_for(const Topology& topology, const RankGpus& gpus, std::size_t rank) {
  const auto place = place_of_gpus(gpus, rank);
  if (!place) return {};
  return {place->node, package_of_cpus(topology, place->local_cpus),
          packages_are_known(topology, gpus, rank) ? place->local_cpus : CpuSet()};
}

/// Leaves the cores idle that the quota cannot keep busy: with more threads the kernel would stop all of them
/// for a part of each period.
void limit_to_quota(const Machine& machine, RankHomes& ranks) {
  const Allowed& allowed = machine.allowed;
  if (!allowed.cpu_quota) return;
  const double each = *allowed.cpu_quota / static_cast<double>(ranks.homes.size());
  const auto most = static_cast<std::size_t>(std::max<double>(kMinCoresPerRank, std::floor(each)));
  std::size_t idle = 0;
  for (Home& home : ranks.homes) {
    home.at_quota = each < static_cast<double>(home.cpus().size());
    if (home.cores.size() <= most) continue;
    idle += home.cores.size() - most;
    home.cores.resize(most);
    home.mems = mems_of(home, machine.topology, allowed.mems);
  }
  if (idle == 0) return;
  const std::string quota =
      format_text("the CPU quota of {:.4g} ({})", *allowed.cpu_quota, allowed.cpu_quota_path);
  const std::string left =
      format_text("{} {} left idle", print_count(idle, "allowed core"), idle == 1 ? "is" : "are");
  ranks.notes.push_back(
      each < kMinCoresPerRank
          ? format_text(
                "{} is less than the {} cores per rank that keep training and optimizer apart: the ranks "
                "will be throttled, and {}",
                quota, kMinCoresPerRank, left)
          : format_text("{} keeps {} cores per rank busy: {}", quota, most, left));
}

/// Returns one sentence for all ranks with a GPU in no known package.
std::string unknown_places_note(const std::vector<int>& ranks) {
  if (ranks.size() == 1) {
    return format_text("the home of rank {} was chosen by size alone: the package of its GPU is not known",
                       ranks.front());
  }
  return format_text(
      "the homes of ranks {} were chosen by size alone: the packages of their GPUs are not known",
      join_text(ranks, ","));
}

void assign_gpus(const Machine& machine, const RankGpus& gpus, RankHomes& ranks) {
  std::vector<int> unknown;
  for (std::size_t rank = 0; rank < gpus.gpus.size(); ++rank) {
    const auto gpu = place_of_gpus(gpus, rank);
    if (!gpu) continue;
    ranks.homes[rank].gpu = planned_gpu(*gpus.gpus[rank]);
    const auto package = package_of_cpus(machine.topology, gpu->local_cpus);
    if (!packages_are_known(machine.topology, gpus, rank)) {
      unknown.push_back(static_cast<int>(rank));
    } else if (!ranks.homes[rank].cpus().intersects(gpu->local_cpus)) {
      ranks.notes.push_back(
          format_text("rank {} is far from its GPU {}: its home has none of the CPUs near the GPU ({}{})",
                      rank, gpu->pci_address, print_cpus(gpu->local_cpus),
                      gpu->node ? format_text(" on node {}", gpu->node->os_index)
                      : package ? format_text(" on package {}", *package)
                                : ""));
    }
  }
  if (!unknown.empty()) ranks.notes.push_back(unknown_places_note(unknown));
}

/// Adds a sentence if homes have isolated CPUs.
void note_isolated(const Machine& machine, RankHomes& ranks) {
  CpuSet homes;
  for (const Home& home : ranks.homes) homes |= home.cpus();
  if (const auto words = isolation_in_words(homes, machine.isolated)) {
    ranks.notes.push_back(format_text(
        "{}; they are used because {}", *words,
        machine.keeps_isolated ? "--isolated says so" : why_not_left_out(homes, machine.isolated)));
  }
}

/// Applies the quota to the homes and gives them their GPUs. `note` is what is to be said of the homes.
RankHomes with_quota_and_gpus(const Machine& machine, const RankGpus& gpus, std::vector<Home> homes,
                              const std::string& note = "") {
  RankHomes ranks{std::move(homes), gpus.notes};
  if (!gpus.spread_note.empty() && is_spread_near(gpus, machine.allowed.cpus))
    ranks.notes.push_back(gpus.spread_note);
  if (!note.empty()) ranks.notes.push_back(note);
  if (ranks.homes.front().shared_cpus.empty()) {
    if (auto own = nearly_whole_quota_note(machine.allowed)) ranks.notes.push_back(*std::move(own));
    limit_to_quota(machine, ranks);
  } else {
    ranks.notes.push_back(shared_homes_note(ranks.homes, machine.allowed));
  }
  note_isolated(machine, ranks);
  assign_gpus(machine, gpus, ranks);
  return ranks;
}

}  // namespace

std::vector<Preference> preferences_of(const Machine& machine, const RankGpus& gpus) {
  std::vector<Preference> preferences;
  for (std::size_t rank = 0; rank < gpus.gpus.size(); ++rank)
    preferences.push_back(preference_for(machine.topology, gpus, rank));
  return preferences;
}

RankHomes rank_homes(const Machine& machine, const RankGpus& gpus) {
  const std::vector<Preference> preferences = preferences_of(machine, gpus);
  if (machine.allowed.shared_cpus) {
    return with_quota_and_gpus(machine, gpus, shared_homes(machine.topology, machine.allowed, preferences));
  }
  FoundHomes found = find_homes(machine.topology, machine.allowed, preferences);
  return with_quota_and_gpus(machine, gpus, std::move(found.homes), found.note);
}

RankHomes rank_homes_within(const Machine& machine, const RankGpus& gpus, const std::vector<CpuSet>& masks) {
  std::vector<CpuSet> usable;
  for (const CpuSet& mask : masks) {
    Allowed own = machine.allowed;
    own.cpus = own.cpus & mask;
    if (!machine.keeps_isolated) leave_out_isolated(own, machine.isolated);
    usable.push_back(own.cpus);
  }
  const std::vector<Preference> preferences = preferences_of(machine, gpus);
  std::vector<Home> homes(masks.size());
  for (const MaskPart& part : mask_parts(machine.topology, usable, preferences, machine.allowed)) {
    Allowed own = machine.allowed;
    own.cpus = part.cpus;
    std::vector<Preference> of_part;
    for (const std::size_t rank : part.ranks) of_part.push_back(preferences[rank]);
    const std::vector<Home> found = homes_of(machine.topology, own, of_part);
    for (std::size_t i = 0; i < found.size(); ++i) homes[part.ranks[i]] = found[i];
  }
  return with_quota_and_gpus(machine, gpus, std::move(homes));
}

RankHomes deepspeed_rank_homes(const Machine& machine, const RankGpus& gpus, Framework framework) {
  if (machine.allowed.shared_cpus) refuse_shared_cpus_for_deepspeed(machine.allowed);
  return with_quota_and_gpus(
      machine, gpus,
      deepspeed_homes(machine.topology, machine.allowed, static_cast<int>(gpus.gpus.size()), framework));
}

}  // namespace zf
