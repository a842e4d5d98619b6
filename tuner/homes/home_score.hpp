// How good a division of the cores is, in numbers that compare as divisions do. Pure.
#pragma once

#include <array>
#include <compare>
#include <vector>

#include "homes/domains.hpp"
#include "homes/home_points.hpp"

namespace zf {

/// The cores of each rank, as ascending indexes into Domains::cores.
using Division = std::vector<std::vector<int>>;

/// For each point, the numbers of the ranks for which it counts, the worst rank first; less is better. A
/// point with several numbers (makes of fast cores) has their lists one behind the other. The smaller of two
/// scores is that of the better division, if both are of the same ranks on the same domains.
struct HomeScore {
  std::array<std::vector<int>, kHomePoints.size()> points;

  const std::vector<int>& of(HomePoint point) const { return points[static_cast<std::size_t>(point)]; }
  auto operator<=>(const HomeScore&) const = default;
};

HomeScore score_of(const Domains& domains, const Division& division);

}  // namespace zf
