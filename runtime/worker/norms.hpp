// Computes sums of squares of the groups' gradients: all members sum their parts, and one adds them up.
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
  /// Reserves 8 bytes for every 1024 elements of all groups. They take memory only when they are first used.
  Norms(const Arena& arena, Isa isa);

  /// Computes one member's part. The slice must begin at a multiple of kNormBlock. Makes no allocation.
  void sum(std::uint32_t group, std::uint32_t buffer, const Slice& slice) const;
  /// Adds up the parts to the group's result. Call it after all members have called sum().
  void add_up(std::uint32_t group, std::uint32_t buffer) const;

 private:
  const Arena& arena_;
  const Isa isa_;
  std::vector<std::size_t> first_block_;  ///< first block of each group, and the end
  std::unique_ptr<double[]> block_sums_;
};

}  // namespace zf
