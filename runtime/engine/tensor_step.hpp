// One step of one tensor as a value, how the tensors of a step are cut into parts for the members of a team,
// and the call of the kernel for one part.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/state_format.hpp"
#include "base/step_types.hpp"
#include "engine/adam.hpp"
#include "engine/kernel.hpp"
#include "engine/slices.hpp"

namespace zf {

/// The arrays of a whole tensor, and what one step does with them. AdamArrays says how they must be aligned.
struct TensorStep {
  void* p = nullptr;
  const void* g = nullptr;
  void* m = nullptr;
  void* v = nullptr;
  float* stale = nullptr;  ///< or null
  void* copy = nullptr;    ///< 16-bit elements, or null
  std::size_t elements = 0;
  std::uint64_t first_element = 0;            ///< the number of the tensor's first element in its optimizer
  std::span<const ElementRange> ranges = {};  ///< in the order of positions; elements before have none
  ElementType grad_type = ElementType::f32;
  StateFormat format = StateFormat::fp32;
  std::uint32_t dither = 0;  ///< dither_of() the seed and the step, if the moments are bf16
  AdamScalars scalars = {};
  AdamKernel kernel = nullptr;  ///< of the variant that fits the arrays
};

/// Elements [slice.begin, slice.end) of the tensor with this number in the list that was cut.
struct Part {
  std::size_t tensor = 0;
  Slice slice;
  bool operator==(const Part&) const = default;
};

/// The parts of all members, one member after the other. Keep it from step to step: then a step allocates
/// nothing once its vectors have grown.
struct Parts {
  std::vector<Part> parts;
  std::vector<std::size_t> first_of_member;  ///< members + 1 numbers of parts

  std::size_t members() const { return first_of_member.empty() ? 0 : first_of_member.size() - 1; }
  std::span<const Part> of_member(std::size_t member) const {
    return std::span(parts).subspan(first_of_member[member],
                                    first_of_member[member + 1] - first_of_member[member]);
  }
};

/// Elements of the largest part. A part is what one member takes from another that has not come so far, so
/// smaller parts even out better: with one part per member instead of these the step took 0.90 of torch's
/// time where it takes 0.84, while parts of 4 Ki elements cost 6 % (two CPUs of an AMD EPYC, Zen 4, 27M
/// parameters).
inline constexpr std::size_t kPartElements = std::size_t{64} << 10;
static_assert(kPartElements % kSliceGrain == 0);

/// Divides the elements of `tensors` among the members in equal shares, in order, into `result`. A share ends
/// where a tensor ends or at a multiple of kSliceGrain of its elements, whichever place is nearest to the
/// equal share. So it differs from that by at most kSliceGrain elements, and some are empty if there is
/// little to do. Parts are at most `part_elements` long, and a tensor of so many elements within one share is
/// one part. No part is empty. Reads only TensorStep::elements. Precondition: members >= 1, and part_elements
/// is a multiple of kSliceGrain and not 0.
void cut(std::span<const TensorStep> tensors, std::size_t members, Parts& result,
         std::size_t part_elements = kPartElements);

/// Returns the arrays of a part of the tensor, without an undo log. Pure.
AdamArrays arrays_of(const TensorStep& step, const Slice& slice, std::size_t prefetch_distance);

/// Returns the number of an element in its optimizer. Pure.
std::uint64_t element_number(const TensorStep& step, std::uint64_t position);

/// Steps a part of the tensor once. Does nothing if the slice is empty. The caller has called begin_run() if
/// the kernel has undo; each range inside of the part begins another run of the same chunk.
/// `prefetch_distance` is that of AdamArrays.
void step_part(const TensorStep& step, const Slice& slice, std::size_t prefetch_distance,
               UndoLog* undo = nullptr);

}  // namespace zf
