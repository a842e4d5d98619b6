#include "worker/shares.hpp"

#include <algorithm>
#include <cassert>

namespace zf {
namespace {

/// Deals grains to members, and remembers from chunk to chunk which member gets the next left-over grain.
class Dealer {
 public:
  explicit Dealer(std::size_t members) : members_(members) { assert(members >= 1); }

  std::vector<Slice> deal(std::size_t begin, std::size_t end) {
    const std::size_t grains = (end - begin + kSliceGrain - 1) / kSliceGrain;
    const std::size_t each = grains / members_;
    const std::size_t left_over = grains % members_;
    std::vector<Slice> slices;
    slices.reserve(members_);
    std::size_t at = begin;
    for (std::size_t member = 0; member < members_; ++member) {
      const bool takes_one_more = (member + members_ - turn_) % members_ < left_over;
      const std::size_t next = std::min(at + (each + (takes_one_more ? 1 : 0)) * kSliceGrain, end);
      slices.push_back({.begin = at, .end = next});
      at = next;
    }
    turn_ = (turn_ + left_over) % members_;
    return slices;
  }

 private:
  const std::size_t members_;
  std::size_t turn_ = 0;
};

}  // namespace

std::vector<GroupShares> deal_shares(const std::vector<GroupCut>& groups, std::size_t members) {
  Dealer dealer(members);
  std::vector<GroupShares> shares;
  shares.reserve(groups.size());
  for (const GroupCut& group : groups) {
    assert(group.chunk_elements != 0 && group.chunk_elements % kSliceGrain == 0);
    GroupShares& chunks = shares.emplace_back();
    for (std::uint64_t begin = 0; begin < group.elements; begin += group.chunk_elements) {
      chunks.push_back(dealer.deal(begin, std::min(begin + group.chunk_elements, group.elements)));
    }
  }
  return shares;
}

}  // namespace zf
