#include "report/explain_homes.hpp"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <utility>

#include "base/cpu_list.hpp"
#include "base/format.hpp"
#include "base/text.hpp"
#include "gpus/moved_gpus.hpp"
#include "homes/domains.hpp"
#include "homes/home_scale.hpp"
#include "homes/rank_homes.hpp"
#include "text/wrap.hpp"

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
      const Gpu* const gpu = gpu_at(gpus, planned.pci_address);
      if (gpu != nullptr && !gpu->local_cpus.empty()) own.push_back(*gpu);
    }
    const bool known = !own.empty() && own.size() == gpus_of(rank).size();
    of_ranks.gpus.push_back(known ? std::optional(own.front()) : std::nullopt);
    of_ranks.more.push_back(known ? std::vector<Gpu>(own.begin() + 1, own.end()) : std::vector<Gpu>());
  }
  return domains_of(topology, plan.allocation.cpus, preferences_of(machine, of_ranks));
}

/// The homes of a plan, counted by the points by which homes are cut.
class CountedHomes {
 public:
  CountedHomes(const Plan& plan, const Topology& topology)
      : domains_(domains_of_plan(plan, topology)), scale_(domains_) {
    for (const RankBinding& rank : plan.ranks) {
      std::vector<int> cores;
      for (std::size_t core = 0; core < domains_.cores.size(); ++core) {
        if (domains_.cores[core].cpus.intersects(rank.home.cpus)) cores.push_back(static_cast<int>(core));
      }
      counts_.push_back(scale_.count_of(ranks(), cores));
    }
    for (std::size_t i = 0; i < scale_.numbers().size(); ++i) {
      const HomePoint point = scale_.numbers()[i].point;
      if (!known_.empty() && scale_.numbers()[known_.back()].point == point) continue;
      bool counts = false;
      for (int rank = 0; rank < ranks(); ++rank) counts = counts || scale_.counts_for(point, rank);
      if (counts) known_.push_back(i);
    }
  }
  CountedHomes(const CountedHomes&) = delete;
  CountedHomes& operator=(const CountedHomes&) = delete;

  int ranks() const { return static_cast<int>(counts_.size()); }
  int cores_of(int rank) const { return count_of(rank).cores; }

  /// Returns the numbers of the points that count for some rank. If there are several makes of fast cores,
  /// only the number of the fastest make is in it.
  const std::vector<std::size_t>& known() const { return known_; }
  HomePoint point_of(std::size_t number) const { return scale_.numbers()[number].point; }
  bool counts_for(std::size_t number, int rank) const { return scale_.counts_for(point_of(number), rank); }

  /// Returns what the rank's home has: "8"; "-" if it is not known.
  std::string in_words(std::size_t number, int rank) const {
    const HomePoint point = point_of(number);
    if (point == HomePoint::near_gpu || point == HomePoint::gpu_package) {
      if (!scale_.counts_for(HomePoint::gpu_package, rank)) return "-";
      if (!scale_.counts_for(point, rank)) return "0";  // no CPU near the GPU is allowed
      return std::to_string(point == HomePoint::near_gpu ? count_of(rank).near_gpu
                                                         : count_of(rank).in_package);
    }
    return counts_for(number, rank) ? std::to_string(std::abs(value(number, rank))) : "-";
  }

  /// Returns how much the home lacks of what it could have if the rank were alone, or has too much of; 0:
  /// nothing.
  int missing(std::size_t number, int rank) const {
    return std::max(0,
                    value(number, rank) - scale_.best_alone(scale_.numbers()[number], rank, cores_of(rank)));
  }

 private:
  const HomeCount& count_of(int rank) const { return counts_[static_cast<std::size_t>(rank)]; }
  int value(std::size_t number, int rank) const { return scale_.number(number, count_of(rank), rank); }

  Domains domains_;
  HomeScale scale_;
  std::vector<HomeCount> counts_;
  std::vector<std::size_t> known_;
};

/// Returns the sentences of these points, with numbers: "1. Few NUMA nodes. 2. Few packages."
std::string numbered_sentences(const CountedHomes& homes) {
  std::string text;
  int place = 0;
  for (const std::size_t number : homes.known())
    text += format_text(" {}. {}", ++place, words_of(homes.point_of(number)).sentence);
  return text;
}

HomesPart numbers_part(const Plan& plan, const CountedHomes& homes) {
  std::vector<Table::Column> columns{{"rank"}};
  for (const std::size_t number : homes.known()) {
    const HomePointWords& words = words_of(homes.point_of(number));
    columns.push_back({.title = words.title, .short_title = words.short_title});
  }
  columns.push_back({"CPUs", Table::Align::left});
  Table table(std::move(columns));
  for (const RankBinding& rank : plan.ranks) {
    std::vector<std::string> cells{std::to_string(rank.rank)};
    for (const std::size_t number : homes.known()) cells.push_back(homes.in_words(number, rank.rank));
    cells.push_back(print(rank.home.cpus));
    table.add(std::move(cells));
  }
  return {format_text("Homes. The first point in which two divisions differ decides; in each the worst rank "
                      "counts first.{}",
                      numbered_sentences(homes)),
          std::move(table)};
}

HomeWishes wishes_of(const CountedHomes& homes, int rank) {
  HomeWishes wishes;
  const int cores = homes.cores_of(rank);
  const std::string need = format_text("{} {}", print_count(cores, "core"), cores == 1 ? "needs" : "need");
  for (const std::size_t number : homes.known()) {
    if (!homes.counts_for(number, rank)) continue;
    const HomePointWords& words = words_of(homes.point_of(number));
    if (const int missing = homes.missing(number, rank); missing == 0) {
      wishes.met.emplace_back(words.name);
    } else {
      wishes.lacks.push_back(format_text("{} {}", print_count(missing, words.noun),
                                         format_text(fmt::runtime(words.lack), need)));
    }
  }
  return wishes;
}

HomesPart wishes_part(const CountedHomes& homes) {
  Table table({{"ranks", Table::Align::left}, {"met", Table::Align::left}, {"lacks", Table::Align::left}});
  using Words = std::pair<std::string, std::string>;
  std::vector<Words> order;
  std::map<Words, std::vector<int>> ranks;  // by what is true of them
  for (int rank = 0; rank < homes.ranks(); ++rank) {
    const HomeWishes wishes = wishes_of(homes, rank);
    const Words words{wishes.lacks.empty() ? "every wish" : join_text(wishes.met, ", "),
                      wishes.lacks.empty() ? "nothing" : join_text(wishes.lacks, ", ")};
    if (!ranks.contains(words)) order.push_back(words);
    ranks[words].push_back(rank);
  }
  for (const Words& words : order)
    table.add({join_text(ranks[words], ","), words.first.empty() ? "none" : words.first, words.second});
  return {
      "Each home is compared with the best one of its size that the rank could have if it were alone; in "
      "sizes and fast cores, with an even share.",
      std::move(table)};
}

}  // namespace

std::vector<HomeWishes> wishes_of_homes(const Plan& plan, const Topology& topology) {
  const CountedHomes homes(plan, topology);
  std::vector<HomeWishes> wishes;
  for (int rank = 0; rank < homes.ranks(); ++rank) wishes.push_back(wishes_of(homes, rank));
  return wishes;
}

std::vector<HomesPart> parts_of_homes(const Plan& plan, const Topology& topology) {
  const CountedHomes homes(plan, topology);
  return {numbers_part(plan, homes), wishes_part(homes)};
}

std::string explain_homes(const Plan& plan, const Topology& topology, std::size_t width) {
  std::string text;
  if (plan.allocation.shared_cpus) {
    text =
        hanging("",
                "Neighbours share these CPUs, so homes may overlap: a rank has all that are allowed on its "
                "GPU's node, or everywhere if its GPU is not known.",
                width);
  }
  for (const HomesPart& part : parts_of_homes(plan, topology)) {
    text += format_text("{}{}\n{}", text.empty() ? "" : "\n", hanging("", part.words, width),
                        part.table.print(width));
  }
  return text;
}

}  // namespace zf
