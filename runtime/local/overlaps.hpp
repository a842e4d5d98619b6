// Finds tensors that overlap in memory, and puts them into batches that do not.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace zf {

/// The bytes [begin, end) of memory. Nothing overlaps an empty range.
struct MemoryRange {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
  bool operator==(const MemoryRange&) const = default;
};

/// Returns true if the ranges share a byte. Pure.
bool overlap(const MemoryRange& a, const MemoryRange& b);

/// What a step of one tensor writes: p, both moments and copy.
using WrittenRanges = std::array<MemoryRange, 4>;

/// Returns the number of the batch of each tensor, from 0. Two tensors of one batch never overlap. Of two
/// that overlap, the later one in the list is in a later batch, so batches that are stepped in order step
/// them in the order of the list. The numbers are as small as that allows. Pure.
std::vector<std::size_t> batches_without_overlap(std::span<const WrittenRanges> tensors);

}  // namespace zf
