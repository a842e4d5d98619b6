#include "worker/norms.hpp"

#include <cassert>

namespace zf {

Norms::Norms(const Arena& arena, Isa isa) : arena_(arena), isa_(isa) {
  std::size_t blocks = 0;
  for (std::size_t i = 0; i < arena.control().group_count; ++i) {
    first_block_.push_back(blocks);
    blocks += norm_blocks(arena.group(i).elements);
  }
  first_block_.push_back(blocks);
  block_sums_ = std::make_unique_for_overwrite<double[]>(blocks);
}

void Norms::sum(std::uint32_t group, std::uint32_t buffer, const Slice& slice) const {
  assert(slice.begin % kNormBlock == 0 || slice.size() == 0);
  const GroupBlock& block = arena_.group(group);
  const ArrayPlace grads = block.part_of(block.grads(buffer), slice.begin, slice.size());
  double* const sums = block_sums_.get() + first_block_[group] + slice.begin / kNormBlock;
  norm_kernel(isa_, block.grad_type)(arena_.at<void>(grads.offset), slice.size(), sums);
}

void Norms::add_up(std::uint32_t group, std::uint32_t buffer) const {
  const std::size_t begin = first_block_[group];
  arena_.group(group).norms[buffer] =
      gradient_norm({block_sums_.get() + begin, first_block_[group + 1] - begin});
}

}  // namespace zf
