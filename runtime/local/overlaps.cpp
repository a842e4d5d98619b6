#include "local/overlaps.hpp"

#include <algorithm>

namespace zf {
namespace {

bool overlap(const WrittenRanges& a, const WrittenRanges& b) {
  return std::any_of(a.begin(), a.end(), [&](const MemoryRange& range) {
    return std::any_of(b.begin(), b.end(),
                       [&](const MemoryRange& other) { return zf::overlap(range, other); });
  });
}

struct Placed {
  MemoryRange range;
  std::size_t tensor;
};

/// Returns the ranges that are not empty, by their begin.
std::vector<Placed> by_address(std::span<const WrittenRanges> tensors) {
  std::vector<Placed> placed;
  placed.reserve(tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    for (const MemoryRange& range : tensors[i]) {
      if (range.begin < range.end) placed.push_back({range, i});
    }
  }
  std::sort(placed.begin(), placed.end(),
            [](const Placed& a, const Placed& b) { return a.range.begin < b.range.begin; });
  return placed;
}

/// Marks the tensors with a range that touches another one. The many others need no second look.
std::vector<std::size_t> suspects_among(std::span<const WrittenRanges> tensors) {
  std::vector<bool> suspect(tensors.size(), false);
  const Placed* widest = nullptr;  // of those before, the range that ends last
  const std::vector<Placed> placed = by_address(tensors);
  for (const Placed& here : placed) {
    if (widest != nullptr && here.range.begin < widest->range.end) {
      suspect[here.tensor] = true;
      suspect[widest->tensor] = true;
    }
    if (widest == nullptr || here.range.end > widest->range.end) widest = &here;
  }
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (suspect[i]) found.push_back(i);
  }
  return found;
}

}  // namespace

bool overlap(const MemoryRange& a, const MemoryRange& b) {
  return a.begin < b.end && b.begin < a.end && a.begin < a.end && b.begin < b.end;
}

std::vector<std::size_t> batches_without_overlap(std::span<const WrittenRanges> tensors) {
  std::vector<std::size_t> batch(tensors.size(), 0);
  const std::vector<std::size_t> suspects = suspects_among(tensors);
  for (std::size_t later = 0; later < suspects.size(); ++later) {
    for (std::size_t earlier = 0; earlier < later; ++earlier) {
      const std::size_t i = suspects[earlier];
      const std::size_t j = suspects[later];
      if (overlap(tensors[i], tensors[j])) batch[j] = std::max(batch[j], batch[i] + 1);
    }
  }
  return batch;
}

}  // namespace zf
