// Who updates what: page-aligned shares of an array, so that page ownership is slice ownership.
#pragma once

#include <cstddef>
#include <vector>

namespace zf {

/// Elements [begin, end) of a group.
struct Slice {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::size_t size() const { return end - begin; }
  bool operator==(const Slice&) const = default;
};

/// fp32 elements per 4 KiB page: every inner boundary is a multiple of it.
inline constexpr std::size_t kSliceGrain = 1024;

/// One slice per thread, in order, covering [0, elements), equal within one grain; empty ones where there
/// is too little. Pure. Precondition: threads >= 1.
std::vector<Slice> slices_of(std::size_t elements, std::size_t threads);

}  // namespace zf
