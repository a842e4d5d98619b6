#include "report/home_wishes.hpp"

#include "base/format.hpp"
#include "base/text.hpp"
#include "report/counted_homes.hpp"

namespace zf {

std::vector<HomeWishes> wishes_of_homes(const Plan& plan, const Topology& topology) {
  const CountedHomes homes(plan, topology);
  std::vector<HomeWishes> result;
  for (int rank = 0; rank < static_cast<int>(plan.ranks.size()); ++rank) {
    HomeWishes& wishes = result.emplace_back();
    const int cores = homes.cores_of(rank);
    const std::string need = format_text("{} {}", print_count(cores, "core"), cores == 1 ? "needs" : "need");
    for (const HomeNumber& number : homes.known_numbers()) {
      if (!homes.scale().counts_for(number.point, rank)) continue;
      const HomePointWords& words = words_of(number.point);
      if (const int missing = homes.missing(number, rank); missing == 0) {
        wishes.met.emplace_back(words.name);
      } else {
        wishes.lacks.push_back(format_text("{} {}", print_count(missing, words.noun),
                                           format_text(fmt::runtime(words.lack), need)));
      }
    }
  }
  return result;
}

}  // namespace zf
