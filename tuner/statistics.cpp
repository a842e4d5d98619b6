#include "tuner/statistics.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <map>

namespace zf {
namespace {

constexpr double kNormal95 = 1.959964;

using Blocks = std::map<int, std::vector<double>>;  // logarithms

Blocks blocks_of(const std::vector<Observation>& observations) {
  Blocks blocks;
  for (const Observation& observation : observations) {
    blocks[observation.block].push_back(std::log(observation.value));
  }
  return blocks;
}

bool share_a_block(const Blocks& a, const Blocks& b) {
  return std::any_of(a.begin(), a.end(), [&](const auto& block) { return b.contains(block.first); });
}

Blocks as_one_block(const Blocks& blocks) {
  Blocks one;
  for (const auto& [block, values] : blocks) one[0].insert(one[0].end(), values.begin(), values.end());
  return one;
}

}  // namespace

double quantile(std::vector<double> values, double q) {
  assert(!values.empty());
  std::sort(values.begin(), values.end());
  const double at = q * static_cast<double>(values.size() - 1);
  const auto low = static_cast<std::size_t>(std::floor(at));
  const std::size_t high = std::min(low + 1, values.size() - 1);
  return values[low] + (at - static_cast<double>(low)) * (values[high] - values[low]);
}

double relative_spread(const std::vector<double>& values) {
  return (quantile(values, 0.75) - quantile(values, 0.25)) / median(values);
}

Difference compare(const std::vector<Observation>& a, const std::vector<Observation>& b) {
  Blocks first = blocks_of(a);
  Blocks second = blocks_of(b);
  if (!share_a_block(first, second)) {
    first = as_one_block(first);
    second = as_one_block(second);
  }
  std::vector<double> shifts;
  double variance = 0;  // of the rank-sum statistic, if a and b were alike
  for (const auto& [block, mine] : first) {
    const auto found = second.find(block);
    if (found == second.end()) continue;
    for (const double x : mine) {
      for (const double y : found->second) shifts.push_back(y - x);
    }
    const auto n = static_cast<double>(mine.size());
    const auto m = static_cast<double>(found->second.size());
    variance += n * m * (n + m + 1) / 12;
  }
  std::sort(shifts.begin(), shifts.end());

  Difference difference{std::expm1(median(shifts)), -1, std::numeric_limits<double>::infinity()};
  const double outside = std::floor(static_cast<double>(shifts.size()) / 2 - kNormal95 * std::sqrt(variance));
  if (outside < 1) return difference;
  const auto from_end = static_cast<std::size_t>(outside);
  difference.low = std::expm1(shifts[from_end - 1]);
  difference.high = std::expm1(shifts[shifts.size() - from_end]);
  return difference;
}

double noise_between_blocks(const std::vector<Observation>& reference,
                            const std::vector<std::vector<Observation>>& others, int blocks) {
  const Blocks base = blocks_of(reference);
  double squares = 0;
  int degrees = 0;
  for (const auto& other : others) {
    std::vector<double> shifts;
    for (const auto& [block, values] : blocks_of(other)) {
      const auto found = base.find(block);
      if (found != base.end()) shifts.push_back(median(values) - median(found->second));
    }
    if (shifts.size() < 2) continue;
    double mean = 0;
    for (const double shift : shifts) mean += shift / static_cast<double>(shifts.size());
    for (const double shift : shifts) squares += (shift - mean) * (shift - mean);
    degrees += static_cast<int>(shifts.size()) - 1;
  }
  if (degrees == 0) return 0;
  return kNormal95 * std::sqrt(squares / degrees / std::max(1, blocks));
}

}  // namespace zf
