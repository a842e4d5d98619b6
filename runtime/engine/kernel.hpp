// The fused multi-tensor Adam kernel: one pass over memory, one sequence of operations for every ISA.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/adam.hpp"
#include "engine/isa.hpp"

namespace zf {

/// The arrays of one slice, `n` elements each, in elements of their own type. p, m, v (and stale, copy where
/// used) begin on a 64-byte boundary, unless n is 0; none overlap.
struct AdamArrays {
  float* p = nullptr;       ///< master parameters
  const void* g = nullptr;  ///< gradients, of the variant's ElementType
  float* m = nullptr;       ///< first moments
  float* v = nullptr;       ///< second moments
  float* stale = nullptr;   ///< out: fp32 snapshot of the new p, or null
  void* copy = nullptr;     ///< out: the new p as bf16 or fp16, or null
  UndoLog* undo = nullptr;  ///< with the variant's undo: of this thread, after begin_run()
  std::size_t n = 0;
  std::size_t prefetch_distance =
      0;  ///< elements to ask memory for ahead of the loop (preferred_prefetch_distance()); 0: none
};

struct KernelVariant {
  ElementType grad = ElementType::f32;
  ElementType copy = ElementType::none;
  bool stale = false;
  AdamMode mode = AdamMode::adamw;
  bool decay = false;  ///< weight_decay != 0
  bool undo = false;   ///< can be finished after a kill at any instruction: engine/undo.hpp
};

/// One step over a slice. No allocation, lock or system call. The result does not depend on the ISA nor on
/// how elements are cut into slices, bit for bit.
using AdamKernel = void (*)(const AdamScalars& scalars, const AdamArrays& arrays);

/// The kernel of a variant. Precondition: is_supported(isa).
AdamKernel adam_kernel(Isa isa, const KernelVariant& variant);

/// Writes stale and copy of a slice from its p, with the bits that the step gives them. Neither: does
/// nothing.
using OutputKernel = void (*)(const AdamArrays& arrays);

/// Of a variant's outputs; what else it says does not matter. Precondition: is_supported(isa).
OutputKernel output_kernel(Isa isa, const KernelVariant& variant);

/// The roofline loop: the same 4 reads (p, g, m, v) and 3 writes (p, m, v) with one addition each, so that
/// nothing but memory can be in the way; with `stale`, p is streamed there as well. Leaves finite,
/// non-denormal values when g is finite and positive.
void roofline_pass(Isa isa, const AdamArrays& arrays);

}  // namespace zf
