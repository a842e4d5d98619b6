#include "report/explain_homes.hpp"

#include <map>
#include <utility>

#include "base/cpu_list.hpp"
#include "base/format.hpp"
#include "machine/moved_gpus.hpp"
#include "report/home_facts.hpp"
#include "report/home_wishes.hpp"
#include "text/wrap.hpp"

namespace zf {
namespace {

/// Returns the cells from "near its GPU" to "CPUs" for a home of a rank of the plan.
std::vector<std::string> cells_of(const CpuSet& home, const RankBinding& rank, const std::vector<Gpu>& gpus,
                                  const Topology& topology) {
  const std::optional<Gpu> gpu = gpu_of(rank, gpus);
  const HomeFacts facts = facts_of_home(home, gpu, topology);
  return {gpu ? std::to_string(facts.near_gpu) : "-",
          gpu ? std::to_string(facts.in_package_of_gpu) : "-",
          std::to_string(facts.nodes.size()),
          std::to_string(facts.packages.size()),
          facts.l3_groups.empty() ? "-" : std::to_string(facts.l3_groups.size()),
          topology.cpu_kinds.size() > 1 ? std::to_string(facts.fast_cores) : "-",
          std::to_string(facts.cores),
          print(home)};
}

/// Returns a table with the columns of cells_of() behind these.
Table table_with(std::vector<Table::Column> columns) {
  for (const auto& [title, short_title] : {std::pair("near its GPU", "near GPU"),
                                           {"in its package", "in package"},
                                           {"NUMA nodes", "nodes"},
                                           {"packages", ""},
                                           {"L3 groups", "L3s"},
                                           {"fast cores", "fast"},
                                           {"cores", ""}})
    columns.push_back({.title = title, .short_title = short_title});
  columns.push_back({"CPUs", Table::Align::left});
  return Table(std::move(columns));
}

void add_row(Table& table, std::vector<std::string> first, std::vector<std::string> cells) {
  first.insert(first.end(), cells.begin(), cells.end());
  table.add(std::move(first));
}

HomesPart facts_part(const Plan& plan, const Topology& topology) {
  const std::vector<Gpu> gpus = planned_gpus(plan, topology);
  Table table = table_with({{"rank"}});
  for (const RankBinding& rank : plan.ranks)
    add_row(table, {std::to_string(rank.rank)}, cells_of(rank.home.cpus, rank, gpus, topology));
  return {
      "Homes. The columns count from left to right, in each the worst rank first: most cores near the GPU, "
      "then in its package; fewest NUMA nodes, packages and L3 groups; most fast cores; equal sizes.",
      std::move(table)};
}

HomesPart wishes_part(const Plan& plan, const Topology& topology) {
  Table table({{"ranks", Table::Align::left}, {"met", Table::Align::left}, {"lacks", Table::Align::left}});
  using Words = std::pair<std::string, std::string>;
  std::vector<Words> order;
  std::map<Words, std::vector<int>> ranks;  // by what is true of them
  int rank = 0;
  for (const HomeWishes& wishes : wishes_of_homes(plan, topology)) {
    const Words words{wishes.lacks.empty() ? "every wish" : join_text(wishes.met, ", "),
                      wishes.lacks.empty() ? "nothing" : join_text(wishes.lacks, ", ")};
    if (!ranks.contains(words)) order.push_back(words);
    ranks[words].push_back(rank++);
  }
  for (const Words& words : order)
    table.add({join_text(ranks[words], ","), words.first.empty() ? "none" : words.first, words.second});
  return {"Wishes. A wish is met if the rank, alone on the allowed CPUs, could have no more of it.",
          std::move(table)};
}

}  // namespace

std::vector<HomesPart> parts_of_homes(const Plan& plan, const Topology& topology) {
  return {facts_part(plan, topology), wishes_part(plan, topology)};
}

std::string explain_homes(const Plan& plan, const Topology& topology, std::size_t width) {
  std::string text;
  if (plan.allocation.shared_cpus) {
    text = hanging(
        "", "Neighbours share these CPUs: homes overlap, and a rank has all CPUs of its GPU's node.", width);
  }
  for (const HomesPart& part : parts_of_homes(plan, topology)) {
    text += format_text("{}{}\n{}", text.empty() ? "" : "\n", hanging("", part.words, width),
                        part.table.print(width));
  }
  return text;
}

}  // namespace zf
