// Cuts an array into one slice per thread, at page boundaries, so that each page belongs to one thread.
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

/// fp32 elements per 4 KiB page. Every inner boundary is a multiple of it.
inline constexpr std::size_t kSliceGrain = 1024;

/// Returns one slice per thread, in order. Together they cover [0, elements). Their sizes differ by at most
/// one grain, and some are empty if there are fewer grains than threads. Pure. Precondition: threads >= 1.
std::vector<Slice> slices_of(std::size_t elements, std::size_t threads);

}  // namespace zf
