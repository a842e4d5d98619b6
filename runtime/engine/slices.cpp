#include "engine/slices.hpp"

#include <algorithm>
#include <cassert>

namespace zf {

std::vector<Slice> slices_of(std::size_t elements, std::size_t threads) {
  assert(threads >= 1);
  const std::size_t grains = elements / kSliceGrain + (elements % kSliceGrain != 0 ? 1 : 0);
  const std::size_t share = grains / threads;
  const std::size_t larger = grains % threads;  // this many slices, the first ones, get one grain more

  std::vector<Slice> slices;
  slices.reserve(threads);
  std::size_t grain = 0;
  for (std::size_t thread = 0; thread < threads; ++thread) {
    const std::size_t begin = std::min(grain * kSliceGrain, elements);
    grain += share + (thread < larger ? 1 : 0);
    slices.push_back({begin, std::min(grain * kSliceGrain, elements)});
  }
  return slices;
}

}  // namespace zf
