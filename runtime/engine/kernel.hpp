// The fused Adam kernel: one pass over memory, and one sequence of operations for every ISA.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/adam.hpp"
#include "engine/isa.hpp"

namespace zf {

/// The arrays of one slice, of `n` elements each. No two overlap. Each may begin at any multiple of its
/// element's size, except that stale, and copy if it is no more than an output, begin on a 64-byte boundary
/// unless n is 0. (They are written past the caches, by stores that need aligned addresses.)
struct AdamArrays {
  float* p = nullptr;       ///< master parameters
  const void* g = nullptr;  ///< gradients, of the type KernelVariant::grad
  float* m = nullptr;       ///< first moments
  float* v = nullptr;       ///< second moments
  float* stale = nullptr;   ///< out: fp32 snapshot of the new p, or null
  void* copy = nullptr;     ///< out: the new p as bf16 or fp16, or null. With KernelVariant::truth: also in
  UndoLog* undo = nullptr;  ///< if the variant has undo: the log of this thread, after begin_run()
  std::size_t n = 0;
  std::size_t prefetch_distance = 0;  ///< elements (preferred_prefetch_distance()); 0: no prefetch
};

struct KernelVariant {
  ElementType grad = ElementType::f32;
  ElementType copy = ElementType::none;
  bool stale = false;
  AdamMode mode = AdamMode::adamw;
  bool decay = false;  ///< weight_decay != 0
  bool undo = false;   ///< the step can be finished after a kill at any instruction (engine/undo.hpp)
  /// The copy is the parameter, and p only has its lower bits. Where the bits of the copy are not those of p
  /// rounded, somebody has written the copy, and the step begins from the copy's value. (A NaN in it becomes
  /// the machine's own.) Needs a copy, and never comes with stale or undo.
  bool truth = false;
};

/// Steps a slice once. Makes no allocation, lock or system call. The result is the same, bit for bit, on
/// every ISA and for every way to cut the elements into slices.
using AdamKernel = void (*)(const AdamScalars& scalars, const AdamArrays& arrays);

/// Returns the kernel of a variant. Precondition: is_supported(isa), and the types are those of GroupShape.
AdamKernel adam_kernel(Isa isa, const KernelVariant& variant);

/// Writes stale and copy of a slice from its p, with the same bits as the step. Does nothing if there are
/// neither.
using OutputKernel = void (*)(const AdamArrays& arrays);

/// Returns the kernel for the outputs of a variant. Its other members do not matter, but a copy must be
/// aligned also where it is the truth. Precondition: is_supported(isa).
OutputKernel output_kernel(Isa isa, const KernelVariant& variant);

/// Runs the roofline loop: the same 4 reads (p, g, m, v) and 3 writes (p, m, v) as a step, with one addition
/// each, so that only memory limits its speed. If `stale` is set, p is streamed there as well. Leaves finite,
/// non-denormal values if g is finite and positive.
void roofline_pass(Isa isa, const AdamArrays& arrays);

}  // namespace zf
