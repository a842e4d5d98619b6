#include "report/home_wishes.hpp"

#include <algorithm>
#include <functional>
#include <map>

#include "base/format.hpp"
#include "base/text.hpp"
#include "machine/moved_gpus.hpp"
#include "report/home_facts.hpp"

namespace zf {
namespace {

/// Returns how many of these parts `cores` cores need at least, if nobody else takes any.
template <class Part>
int fewest_parts(const Topology& topology, const CpuSet& allowed, int cores, Part part) {
  std::map<int, int> sizes;
  for (const Core& core : topology.cores) {
    if (core.cpus.intersects(allowed)) ++sizes[part(core)];
  }
  std::vector<int> largest_first;
  for (const auto& [index, size] : sizes) largest_first.push_back(size);
  std::sort(largest_first.begin(), largest_first.end(), std::greater<>());
  int parts = 0;
  for (const int size : largest_first) {
    if (cores <= 0) break;
    cores -= size;
    ++parts;
  }
  return parts;
}

/// Adds a wish to those that are met, or what is missing to what the rank lacks.
void add(HomeWishes& wishes, const char* wish, int missing, const std::string& noun,
         const std::string& words) {
  if (missing <= 0) {
    wishes.met.emplace_back(wish);
  } else {
    wishes.lacks.push_back(format_text("{} {}", print_count(missing, noun), words));
  }
}

}  // namespace

std::vector<HomeWishes> wishes_of_homes(const Plan& plan, const Topology& topology) {
  const std::vector<Gpu> gpus = planned_gpus(plan, topology);
  const CpuSet& allowed = plan.allocation.cpus;
  const int ranks = static_cast<int>(plan.ranks.size());
  std::vector<HomeFacts> homes;
  int cores = 0;
  for (const RankBinding& rank : plan.ranks) {
    homes.push_back(facts_of_home(rank.home.cpus, gpu_of(rank, gpus), topology));
    cores += homes.back().cores;
  }
  std::vector<HomeWishes> result;
  for (std::size_t i = 0; i < homes.size(); ++i) {
    const HomeFacts& home = homes[i];
    const std::optional<Gpu> gpu = gpu_of(plan.ranks[i], gpus);
    const HomeFacts everything = facts_of_home(allowed, gpu, topology);
    const std::string more =
        format_text("more than {} need{}", print_count(home.cores, "core"), home.cores == 1 ? "s" : "");
    const auto touched = [&](const char* wish, std::size_t count, const char* noun, auto part) {
      add(result.back(), wish, static_cast<int>(count) - fewest_parts(topology, allowed, home.cores, part),
          noun, more);
    };
    result.emplace_back();
    if (gpu) {
      add(result.back(), "GPU's CPUs", std::min(home.cores, everything.near_gpu) - home.near_gpu, "core",
          "that could be near its GPU");
      add(result.back(), "GPU's package",
          std::min(home.cores, everything.in_package_of_gpu) - home.in_package_of_gpu, "core",
          "that could be in the package of its GPU");
    }
    if (!everything.nodes.empty())
      touched("NUMA nodes", home.nodes.size(), "NUMA node",
              [](const Core& core) { return core.node ? core.node->os_index : -1; });
    touched("packages", home.packages.size(), "package", [](const Core& core) { return core.package; });
    if (!everything.l3_groups.empty())
      touched("L3 groups", home.l3_groups.size(), "L3 group", [](const Core& core) { return core.l3; });
    if (everything.fast_cores > 0)
      add(result.back(), "fast cores", std::min(home.cores, everything.fast_cores / ranks) - home.fast_cores,
          "fast core", "less than an even share");
    add(result.back(), "equal sizes", cores / ranks - home.cores, "core", "less than an even share");
  }
  return result;
}

}  // namespace zf
