#include "search/controls.hpp"

#include <algorithm>
#include <utility>

namespace zf {

SharedPools shared_pools_of(Framework framework) {
  const bool any = framework == Framework::native || framework == Framework::unknown;
  return any ? SharedPools::any : SharedPools::whole;
}

bool same_cpus(const Split& a, const Split& b) { return a.ranks == b.ranks; }

std::vector<Split> control_splits(const std::vector<Home>& homes, SharedPools shared_pools) {
  std::vector<Split> splits;
  const bool shared = std::any_of(homes.begin(), homes.end(), [](const Home& home) { return home.shared; });
  if (shared) return {split_of(homes, {})};  // a rank with one core leaves nothing to compare
  for (const Control control : kControls) {
    if (control == Control::shared && shared_pools == SharedPools::none) continue;
    Split split = split_of(homes, control_shape(control));
    split.shape.pool_cores = split.ranks.front().pool_cores;
    const bool is_there = std::any_of(splits.begin(), splits.end(),
                                      [&](const Split& other) { return same_cpus(split, other); });
    if (!is_there) splits.push_back(std::move(split));
  }
  return splits;
}

}  // namespace zf
