#include "engine/tensor_step.hpp"

#include <algorithm>
#include <cassert>

#include "engine/dither.hpp"
#include "engine/undo.hpp"

namespace zf {
namespace {

/// Returns how many elements the first `members_before` of `members` would get if shares could end anywhere.
std::size_t equal_end(std::size_t elements, std::size_t members_before, std::size_t members) {
  return elements / members * members_before + elements % members * members_before / members;
}

/// Returns the place in a tensor of `elements` that is nearest to `wanted` and where a share may end.
/// Precondition: wanted <= elements.
std::size_t nearest_place(std::size_t wanted, std::size_t elements) {
  const std::size_t below = wanted / kSliceGrain * kSliceGrain;
  const std::size_t above = std::min(below + kSliceGrain, elements);
  return above - wanted < wanted - below ? above : below;
}

void* moved(void* array, std::size_t bytes) {
  return array == nullptr ? nullptr : static_cast<char*>(array) + bytes;
}

}  // namespace

void cut(std::span<const TensorStep> tensors, std::size_t members, Parts& result, std::size_t part_elements) {
  assert(members >= 1 && part_elements != 0 && part_elements % kSliceGrain == 0);
  std::size_t elements = 0;
  for (const TensorStep& tensor : tensors) elements += tensor.elements;

  result.parts.clear();
  result.first_of_member.clear();
  result.first_of_member.push_back(0);
  std::size_t before = 0;  // elements of the tensors before
  for (std::size_t number = 0; number < tensors.size(); ++number) {
    const std::size_t size = tensors[number].elements;
    std::size_t at = 0;
    for (;;) {
      const std::size_t members_before = result.first_of_member.size();  // after the share that grows now
      const std::size_t wanted = equal_end(elements, members_before, members);
      const bool ends_here = members_before < members && wanted <= before + size;
      const std::size_t end = ends_here ? nearest_place(wanted - before, size) : size;
      for (; at < end; at += std::min(part_elements, end - at)) {
        result.parts.push_back({.tensor = number, .slice = {at, std::min(at + part_elements, end)}});
      }
      if (!ends_here) break;
      result.first_of_member.push_back(result.parts.size());
    }
    before += size;
  }
  while (result.first_of_member.size() <= members) result.first_of_member.push_back(result.parts.size());
}

AdamArrays arrays_of(const TensorStep& step, const Slice& slice, std::size_t prefetch_distance) {
  const std::size_t begin = slice.begin;
  const StateBytes bytes = state_bytes(step.format);
  AdamArrays arrays;
  arrays.p = moved(step.p, begin * bytes.master);
  arrays.g = static_cast<const char*>(step.g) + begin * element_bytes(step.grad_type);
  arrays.m = moved(step.m, begin * bytes.moment);
  arrays.v = moved(step.v, begin * bytes.moment);
  if (step.stale != nullptr) arrays.stale = step.stale + begin;
  arrays.copy = moved(step.copy, begin * sizeof(std::uint16_t));
  arrays.n = slice.size();
  arrays.prefetch_distance = prefetch_distance;
  arrays.dither = dither_at(step.dither, element_number(step, begin));
  return arrays;
}

namespace {

/// Returns the first range that begins after an element.
auto next_range(const TensorStep& step, std::uint64_t position) {
  return std::upper_bound(step.ranges.begin(), step.ranges.end(), position,
                          [](std::uint64_t at, const ElementRange& range) { return at < range.position; });
}

}  // namespace

std::uint64_t element_number(const TensorStep& step, std::uint64_t position) {
  const auto next = next_range(step, position);
  if (next == step.ranges.begin()) return step.first_element + position;
  const ElementRange& range = *(next - 1);
  return range.first_element + (position - range.position);
}

// roll_back() knows one short vector of a slice, its last: ranges must not end within a vector.
static_assert(kRangeGrain % (2 * kWidestLane) == 0);

void step_part(const TensorStep& step, const Slice& slice, std::size_t prefetch_distance, UndoLog* undo) {
  const UndoRun run = undo == nullptr ? UndoRun{} : undo->runs[undo->current];
  for (std::size_t begin = slice.begin; begin < slice.end;) {
    if (undo != nullptr && begin != slice.begin)
      begin_run(*undo, run.chunk_number, run.begin + (begin - slice.begin));
    const auto next = next_range(step, begin);
    const bool ends_inside = next != step.ranges.end() && next->position < slice.end;
    const std::size_t end = ends_inside ? next->position : slice.end;
    AdamArrays arrays = arrays_of(step, {begin, end}, prefetch_distance);
    arrays.undo = undo;
    step.kernel(step.scalars, arrays);
    begin = end;
  }
}

}  // namespace zf
