// Sums of squares of the groups' gradients, summed up by all members and added by one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/gradient_norm.hpp"
#include "ipc/arena.hpp"

namespace zf {

class Norms {
 public:
  /// 8 bytes for 1024 elements of all groups, which become memory when they are first used.
  Norms(const Arena& arena, Isa isa);

  /// One member's part. The slice begins at a multiple of kNormBlock. No allocation.
  void sum(std::uint32_t group, std::uint32_t buffer, const Slice& slice) const;
  /// When all members have summed theirs: to the group's result.
  void add_up(std::uint32_t group, std::uint32_t buffer) const;

 private:
  const Arena& arena_;
  const Isa isa_;
  std::vector<std::size_t> first_block_;  ///< of each group, and the end
  std::unique_ptr<double[]> block_sums_;
};

}  // namespace zf
