#include "text/statistics.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <map>
#include <numbers>

namespace zf {
namespace {

constexpr double kNormal95 = 1.959964;
constexpr double kTieMargin = 1.25;             // times the tie: how far the interval of a tie may reach
constexpr double kDeviationPerMedian = 1.4826;  // of absolute deviations, in a normal distribution

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

/// The median of one candidate in one block, as a logarithm.
struct BlockMedian {
  int candidate = 0;
  int block = 0;
  double value = 0;
};

std::map<int, int> count_by(const std::vector<BlockMedian>& medians, int BlockMedian::*key) {
  std::map<int, int> counts;
  for (const BlockMedian& entry : medians) ++counts[entry.*key];
  return counts;
}

/// Returns all medians except those that are alone in their block or alone for their candidate: nothing can
/// be compared with them.
std::vector<BlockMedian> block_medians(const std::vector<std::vector<Observation>>& candidates) {
  std::vector<BlockMedian> medians;
  for (std::size_t candidate = 0; candidate < candidates.size(); ++candidate) {
    for (const auto& [block, values] : blocks_of(candidates[candidate])) {
      medians.push_back({static_cast<int>(candidate), block, median(values)});
    }
  }
  for (std::size_t before = 0; before != medians.size();) {
    before = medians.size();
    for (int BlockMedian::*const key : {&BlockMedian::candidate, &BlockMedian::block}) {
      const auto counts = count_by(medians, key);
      std::erase_if(medians, [&](const BlockMedian& entry) { return counts.at(entry.*key) < 2; });
    }
  }
  return medians;
}

double degrees_of_freedom(const std::vector<BlockMedian>& medians) {
  const auto effects =
      count_by(medians, &BlockMedian::candidate).size() + count_by(medians, &BlockMedian::block).size();
  return static_cast<double>(medians.size()) - static_cast<double>(effects) + 1;
}

void remove_means(std::vector<BlockMedian>& medians, int BlockMedian::*key) {
  std::map<int, double> sums;
  for (const BlockMedian& entry : medians) sums[entry.*key] += entry.value;
  const auto counts = count_by(medians, key);
  for (BlockMedian& entry : medians) entry.value -= sums.at(entry.*key) / counts.at(entry.*key);
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
  double variance = 0;  // of the rank-sum statistic if a and b were equal
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

bool is_tie(const Difference& difference, double tie) {
  return difference.estimate <= tie && (difference.high <= kTieMargin * tie || std::isinf(difference.high));
}

bool is_noise(const Difference& difference, double noise) {
  return difference.estimate <= noise && difference.low <= 0;
}

double noise_between_blocks(const std::vector<std::vector<Observation>>& candidates, int blocks) {
  std::vector<BlockMedian> medians = block_medians(candidates);
  const double freedom = degrees_of_freedom(medians);
  if (medians.empty() || freedom <= 0) return 0;
  // Remove the level of each candidate and of each block; alternating between the two converges quickly.
  for (int i = 0; i < 10; ++i) {
    remove_means(medians, &BlockMedian::candidate);
    remove_means(medians, &BlockMedian::block);
  }
  std::vector<double> residuals;
  for (const BlockMedian& entry : medians) residuals.push_back(std::abs(entry.value));
  const double deviation =
      kDeviationPerMedian * median(residuals) * std::sqrt(static_cast<double>(medians.size()) / freedom);
  return kNormal95 * deviation * std::numbers::sqrt2 / std::sqrt(std::max(1, blocks));
}

}  // namespace zf
