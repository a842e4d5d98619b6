#include "homes/home_points.hpp"

namespace zf {

HomeSizes home_sizes(int cores, int ranks) {
  const int share = cores / ranks;
  const int rest = cores % ranks;
  const bool can_give = share >= kFewCores && ranks > 1;
  return {share - (can_give ? 1 : 0), share + (rest > 1 ? 2 : rest == 1 || can_give ? 1 : 0)};
}

}  // namespace zf
