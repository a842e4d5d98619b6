#include "homes/home_score.hpp"

#include <algorithm>
#include <functional>

#include "homes/home_scale.hpp"
#include "homes/index.hpp"

namespace zf {

HomeScore score_of(const Domains& domains, const Division& division) {
  const HomeScale scale(domains);
  const std::vector<HomeNumber>& numbers = scale.numbers();
  std::vector<std::vector<int>> by_rank;
  for (int rank = 0; rank < static_cast<int>(division.size()); ++rank)
    scale.write(scale.count_of(rank, division[at(rank)]), rank, by_rank.emplace_back());

  HomeScore score;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    std::vector<int> list;
    for (int rank = 0; rank < static_cast<int>(division.size()); ++rank) {
      if (scale.counts_for(numbers[i].point, rank)) list.push_back(by_rank[at(rank)][i]);
    }
    std::sort(list.begin(), list.end(), std::greater<>());
    std::vector<int>& point = score.points[static_cast<std::size_t>(numbers[i].point)];
    point.insert(point.end(), list.begin(), list.end());
  }
  return score;
}

}  // namespace zf
