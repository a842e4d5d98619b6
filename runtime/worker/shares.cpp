#include "worker/shares.hpp"

#include <algorithm>
#include <cassert>

namespace zf {

std::vector<std::vector<Slice>> shares_of(const std::vector<std::uint64_t>& elements, std::size_t members) {
  assert(members >= 1);
  std::vector<std::vector<Slice>> shares;
  shares.reserve(elements.size());
  std::size_t turn = 0;  // the member whose turn it is to take a grain that is left over
  for (const std::uint64_t count : elements) {
    const std::size_t grains = (count + kSliceGrain - 1) / kSliceGrain;
    const std::size_t each = grains / members;
    const std::size_t left_over = grains % members;
    auto& slices = shares.emplace_back();
    slices.reserve(members);
    std::size_t grain = 0;
    for (std::size_t member = 0; member < members; ++member) {
      const bool takes_one_more = (member + members - turn) % members < left_over;
      const std::size_t begin = std::min<std::size_t>(grain * kSliceGrain, count);
      grain += each + (takes_one_more ? 1 : 0);
      slices.push_back({.begin = begin, .end = std::min<std::size_t>(grain * kSliceGrain, count)});
    }
    turn = (turn + left_over) % members;
  }
  return shares;
}

}  // namespace zf
