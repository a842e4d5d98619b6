#include "report/explain_homes.hpp"

#include <map>
#include <utility>

#include "base/cpu_list.hpp"
#include "base/format.hpp"
#include "report/counted_homes.hpp"
#include "report/home_wishes.hpp"
#include "text/wrap.hpp"

namespace zf {
namespace {

/// Returns the sentences of these points, with numbers: "1. Few NUMA nodes. 2. Few packages."
std::string numbered_sentences(const std::vector<HomeNumber>& numbers) {
  std::string text;
  int place = 0;
  for (const HomeNumber& number : numbers)
    text += format_text(" {}. {}", ++place, words_of(number.point).sentence);
  return text;
}

HomesPart numbers_part(const Plan& plan, const Topology& topology) {
  const CountedHomes homes(plan, topology);
  const std::vector<HomeNumber> numbers = homes.known_numbers();
  std::vector<Table::Column> columns{{"rank"}};
  for (const HomeNumber& number : numbers) {
    const HomePointWords& words = words_of(number.point);
    columns.push_back({.title = words.title, .short_title = words.short_title});
  }
  columns.push_back({"CPUs", Table::Align::left});
  Table table(std::move(columns));
  for (const RankBinding& rank : plan.ranks) {
    std::vector<std::string> cells{std::to_string(rank.rank)};
    for (const HomeNumber& number : numbers) cells.push_back(homes.in_words(number, rank.rank));
    cells.push_back(print(rank.home.cpus));
    table.add(std::move(cells));
  }
  return {format_text("Homes. The first point in which two divisions differ decides; in each the worst rank "
                      "counts first.{}",
                      numbered_sentences(numbers)),
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
  return {
      "Each home is compared with the best one of its size that the rank could have if it were alone; in "
      "sizes and fast cores, with an even share.",
      std::move(table)};
}

}  // namespace

std::vector<HomesPart> parts_of_homes(const Plan& plan, const Topology& topology) {
  return {numbers_part(plan, topology), wishes_part(plan, topology)};
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
