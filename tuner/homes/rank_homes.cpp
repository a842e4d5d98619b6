#include "homes/rank_homes.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "homes/deepspeed_homes.hpp"

namespace zf {
namespace {

/// Fewer cores cannot keep training and optimizer apart.
constexpr int kFewestCores = 2;

/// Absent: the GPU is near several packages, or near nothing that is known.
std::optional<int> package_of(const Topology& topology, const Gpu& gpu) {
  std::set<int> packages;
  for (const Core& core : topology.cores) {
    if (core.cpus.intersects(gpu.local_cpus)) packages.insert(core.package);
  }
  return packages.size() == 1 ? std::optional(*packages.begin()) : std::nullopt;
}

RankWish wish_for(const Topology& topology, const Gpu& gpu) { return {gpu.node, package_of(topology, gpu)}; }

/// What the quota cannot keep busy stays idle: threads beyond it would only make the kernel stop them all.
void fit_to_quota(const Machine& machine, RankHomes& ranks) {
  const Allowed& allowed = machine.allowed;
  if (!allowed.cpu_quota) return;
  const double each = *allowed.cpu_quota / static_cast<double>(ranks.homes.size());
  const auto most = static_cast<std::size_t>(std::max<double>(kFewestCores, std::floor(each)));
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
      fmt::format("the CPU quota of {:.4g} ({})", *allowed.cpu_quota, allowed.cpu_quota_path);
  const std::string left = fmt::format("{} allowed core{} left idle", idle, idle == 1 ? " is" : "s are");
  ranks.notes.push_back(
      each < kFewestCores
          ? fmt::format("{} is less than the {} cores per rank that keep its two sides apart: these will be "
                        "throttled, and {}",
                        quota, kFewestCores, left)
          : fmt::format("{} keeps {} cores per rank busy: {}", quota, most, left));
}

void give_gpus(const Machine& machine, const RankGpus& gpus, RankHomes& ranks) {
  for (std::size_t rank = 0; rank < gpus.gpus.size(); ++rank) {
    if (!gpus.gpus[rank]) continue;
    const Gpu& gpu = *gpus.gpus[rank];
    ranks.homes[rank].gpu = RankGpu{gpu.pci_address, gpu.node};
    const auto package = package_of(machine.topology, gpu);
    if (!package) {
      ranks.notes.push_back(
          fmt::format("rank {} has a home by its size alone: the place of its GPU {} is not known", rank,
                      gpu.pci_address));
    } else if (!ranks.homes[rank].cpus().intersects(gpu.local_cpus)) {
      ranks.notes.push_back(fmt::format(
          "rank {} is far from its GPU {}: it has no CPU of {}", rank, gpu.pci_address,
          gpu.node ? fmt::format("node {}", gpu.node->os_index) : fmt::format("package {}", *package)));
    }
  }
}

RankHomes finished(const Machine& machine, const RankGpus& gpus, std::vector<Home> homes) {
  RankHomes ranks{std::move(homes), gpus.notes};
  fit_to_quota(machine, ranks);
  give_gpus(machine, gpus, ranks);
  return ranks;
}

}  // namespace

RankHomes rank_homes(const Machine& machine, const RankGpus& gpus) {
  std::vector<RankWish> wishes;
  for (const auto& gpu : gpus.gpus) wishes.push_back(gpu ? wish_for(machine.topology, *gpu) : RankWish());
  return finished(machine, gpus, homes_of(machine.topology, machine.allowed, wishes));
}

RankHomes rank_homes_within(const Machine& machine, const RankGpus& gpus, const std::vector<CpuSet>& masks) {
  std::vector<Home> homes;
  for (std::size_t rank = 0; rank < masks.size(); ++rank) {
    Allowed own = machine.allowed;
    own.cpus = own.cpus & masks[rank];
    const auto& gpu = gpus.gpus.at(rank);
    const RankWish wish = gpu ? wish_for(machine.topology, *gpu) : RankWish();
    homes.push_back(homes_of(machine.topology, own, {wish}).front());
  }
  return finished(machine, gpus, std::move(homes));
}

RankHomes deepspeed_rank_homes(const Machine& machine, const RankGpus& gpus) {
  return finished(machine, gpus,
                  deepspeed_homes(machine.topology, machine.allowed, static_cast<int>(gpus.gpus.size())));
}

}  // namespace zf
