#include "homes/home_gain.hpp"

#include "base/format.hpp"
#include "base/text.hpp"
#include "homes/index.hpp"
#include "homes/rank_homes.hpp"

namespace zf {

HomeScore score_of_homes(const Machine& machine, const RankGpus& gpus, const std::vector<CpuSet>& homes) {
  const Domains domains = domains_of(machine.topology, machine.allowed.cpus, preferences_of(machine, gpus));
  Division division(homes.size());
  for (std::size_t rank = 0; rank < homes.size(); ++rank) {
    for (int core = 0; core < static_cast<int>(domains.cores.size()); ++core) {
      if (homes[rank].intersects(domains.cores[at(core)].cpus)) division[rank].push_back(core);
    }
  }
  return score_of(domains, division);
}

std::optional<std::string> gain_in_words(const HomeScore& before, const HomeScore& after) {
  if (!(after < before)) return std::nullopt;
  struct Wish {
    std::vector<int> before;
    std::vector<int> after;
    const char* noun;
    const char* words;
    int sign;
  };
  const Wish wishes[] = {
      {before.far_from_place, after.far_from_place, "core", "{} near its GPU, and could have {}", -1},
      {before.far_from_package, after.far_from_package, "core",
       "{} in the package of its GPU, and could have {}", -1},
      {before.nodes, after.nodes, "NUMA node", "cores of {}, and could have cores of {}", 1},
      {before.packages, after.packages, "package", "cores of {}, and could have cores of {}", 1},
      {before.l3_groups, after.l3_groups, "L3 group", "cores of {}, and could have cores of {}", 1},
      {before.fast_cores, after.fast_cores, "fast core", "{}, and could have {}", -1},
  };
  for (const Wish& wish : wishes) {
    // The lists begin with the worst rank. The first difference is the worst rank for which something
    // changes.
    for (std::size_t i = 0; i < wish.before.size(); ++i) {
      if (wish.before[i] == wish.after[i]) continue;
      return format_text(
          "{} has {}", i == 0 ? "the worst rank" : "one rank",
          format_text(fmt::runtime(wish.words),
                      print_count(static_cast<std::size_t>(wish.sign * wish.before[i]), wish.noun),
                      wish.sign * wish.after[i]));
    }
  }
  return std::nullopt;
}

}  // namespace zf
