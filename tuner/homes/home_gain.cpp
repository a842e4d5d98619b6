#include "homes/home_gain.hpp"

#include <cstdlib>

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
  for (std::size_t point = 0; point < kHomePoints.size(); ++point) {
    const HomePointWords& words = kHomePoints[point];
    const std::vector<int>& old = before.points[point];
    const std::vector<int>& now = after.points[point];
    // The lists begin with the worst rank. The first difference is the worst rank for which something
    // changes.
    for (std::size_t i = 0; i < old.size(); ++i) {
      if (old[i] == now[i]) continue;
      if (now[i] > old[i]) return std::nullopt;
      return format_text(
          "{} has {}", i == 0 ? "the worst rank" : "one rank",
          format_text(fmt::runtime(words.gain), print_count(std::abs(old[i]), words.noun), std::abs(now[i])));
    }
  }
  return std::nullopt;
}

}  // namespace zf
