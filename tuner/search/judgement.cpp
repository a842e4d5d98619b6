#include "search/judgement.hpp"

#include <algorithm>
#include <set>
#include <utility>

namespace zf {
namespace {

/// Returns whether another eligible contender beats the contender `half` by more than the noise.
bool is_beaten(const std::vector<Contender>& contenders, std::size_t half, double noise) {
  for (std::size_t i = 0; i < contenders.size(); ++i) {
    if (i == half || !contenders[i].eligible) continue;
    if (!is_noise(difference_of(contenders[i], contenders[half]), noise)) return true;
  }
  return false;
}

}  // namespace

int block_count(const Contender& contender) {
  std::set<int> blocks;
  for (const Observation& time : contender.times) blocks.insert(time.block);
  return static_cast<int>(blocks.size());
}

std::size_t fastest_index(const std::vector<Contender>& contenders) {
  const auto key = [](const Contender& contender) {
    return std::pair(!contender.eligible, contender.median);
  };
  const auto fastest = std::min_element(contenders.begin(), contenders.end(),
                                        [&](const auto& a, const auto& b) { return key(a) < key(b); });
  return static_cast<std::size_t>(fastest - contenders.begin());
}

int control_index(const std::vector<Contender>& contenders, Control control) {
  for (std::size_t i = 0; i < contenders.size(); ++i) {
    if (contenders[i].control == control) return static_cast<int>(i);
  }
  return -1;
}

Difference difference_of(const Contender& a, const Contender& b) { return compare(a.times, b.times); }

std::size_t knee_index(const std::vector<Contender>& contenders, double tie) {
  const std::size_t fastest = fastest_index(contenders);
  std::size_t knee = fastest;
  for (std::size_t i = 0; i < contenders.size(); ++i) {
    if (!contenders[i].eligible || contenders[i].pool >= contenders[knee].pool) continue;
    if (is_tie(difference_of(contenders[fastest], contenders[i]), tie)) knee = i;
  }
  return knee;
}

double noise_floor(const std::vector<Contender>& contenders) {
  std::vector<std::vector<Observation>> times;
  for (const Contender& contender : contenders) times.push_back(contender.times);
  return noise_between_blocks(times, block_count(contenders[fastest_index(contenders)]));
}

Verdict judge(const std::vector<Contender>& contenders, double accuracy, double noise) {
  Verdict verdict;
  verdict.tie = std::max(accuracy, noise);
  verdict.fastest = fastest_index(contenders);
  verdict.winner = knee_index(contenders, verdict.tie);
  if (noise <= accuracy) return verdict;
  const int half = control_index(contenders, Control::half);
  if (half < 0 || static_cast<std::size_t>(half) == verdict.winner) return verdict;
  if (is_beaten(contenders, static_cast<std::size_t>(half), noise)) return verdict;
  verdict.winner = static_cast<std::size_t>(half);
  verdict.conservative = true;
  return verdict;
}

}  // namespace zf
