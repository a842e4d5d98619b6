#include "report/counted_homes.hpp"

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "gpus/moved_gpus.hpp"
#include "homes/rank_homes.hpp"

namespace zf {
namespace {

Domains domains_of_plan(const Plan& plan, const Topology& topology) {
  Machine machine;
  machine.topology = topology;
  const std::vector<Gpu> gpus = planned_gpus(plan, topology);
  RankGpus of_ranks;
  for (const RankBinding& rank : plan.ranks) {
    std::vector<Gpu> own;
    for (const RankGpu& planned : gpus_of(rank)) {
      const auto gpu = std::find_if(gpus.begin(), gpus.end(),
                                    [&](const Gpu& one) { return one.pci_address == planned.pci_address; });
      if (gpu != gpus.end() && !gpu->local_cpus.empty()) own.push_back(*gpu);
    }
    const bool known = !own.empty() && own.size() == gpus_of(rank).size();
    of_ranks.gpus.push_back(known ? std::optional(own.front()) : std::nullopt);
    of_ranks.more.push_back(known ? std::vector<Gpu>(own.begin() + 1, own.end()) : std::vector<Gpu>());
  }
  return domains_of(topology, plan.allocation.cpus, preferences_of(machine, of_ranks));
}

}  // namespace

CountedHomes::CountedHomes(const Plan& plan, const Topology& topology)
    : domains_(domains_of_plan(plan, topology)), scale_(domains_) {
  for (std::size_t rank = 0; rank < plan.ranks.size(); ++rank) {
    std::vector<int> cores;
    for (std::size_t core = 0; core < domains_.cores.size(); ++core) {
      if (domains_.cores[core].cpus.intersects(plan.ranks[rank].home.cpus))
        cores.push_back(static_cast<int>(core));
    }
    counts_.push_back(scale_.count_of(static_cast<int>(rank), cores));
  }
}

std::vector<HomeNumber> CountedHomes::known_numbers() const {
  std::vector<HomeNumber> known;
  for (const HomeNumber& number : scale_.numbers()) {
    if (!known.empty() && known.back().point == number.point) continue;
    for (int rank = 0; rank < static_cast<int>(counts_.size()); ++rank) {
      if (!scale_.counts_for(number.point, rank)) continue;
      known.push_back(number);
      break;
    }
  }
  return known;
}

std::string CountedHomes::in_words(const HomeNumber& number, int rank) const {
  const HomeCount& count = counts_[static_cast<std::size_t>(rank)];
  if (number.point == HomePoint::near_gpu || number.point == HomePoint::gpu_package) {
    if (!scale_.counts_for(HomePoint::gpu_package, rank)) return "-";
    if (!scale_.counts_for(number.point, rank)) return "0";  // no CPU near the GPU is allowed
    return std::to_string(number.point == HomePoint::near_gpu ? count.near_gpu : count.in_package);
  }
  if (!scale_.counts_for(number.point, rank)) return "-";
  return std::to_string(std::abs(number_of(number, rank)));
}

int CountedHomes::missing(const HomeNumber& number, int rank) const {
  return std::max(0, number_of(number, rank) - scale_.best_alone(number, rank, cores_of(rank)));
}

int CountedHomes::number_of(const HomeNumber& number, int rank) const {
  const auto same = [&](const HomeNumber& one) {
    return one.point == number.point && one.level == number.level;
  };
  const auto found = std::find_if(scale_.numbers().begin(), scale_.numbers().end(), same);
  return scale_.number(static_cast<std::size_t>(found - scale_.numbers().begin()),
                       counts_[static_cast<std::size_t>(rank)], rank);
}

}  // namespace zf
