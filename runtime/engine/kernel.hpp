// The fused Adam kernel: one pass over memory, and one sequence of operations for every ISA.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/state_format.hpp"
#include "engine/adam.hpp"
#include "engine/isa.hpp"

namespace zf {

/// The arrays of one slice, of `n` elements each. No two overlap. Each may begin at any multiple of its
/// element's size, except that stale, and copy if it is no more than an output, begin on a 64-byte boundary
/// unless n is 0. (They are written past the caches, by stores that need aligned addresses.)
struct AdamArrays {
  void* p = nullptr;        ///< master parameters: fp32; with split masters their low halves
  const void* g = nullptr;  ///< gradients, of the type KernelVariant::grad
  void* m = nullptr;        ///< first moments: fp32 or bf16, as KernelVariant::format says
  void* v = nullptr;        ///< second moments, in the same format
  float* stale = nullptr;   ///< out: fp32 snapshot of the new p, or null
  /// Out: the new p as bf16 or fp16, or null. With KernelVariant::truth: also in. With split masters: in and
  /// out, the high halves, which are the parameters.
  void* copy = nullptr;
  UndoLog* undo = nullptr;  ///< if the variant has undo: the log of this thread, after begin_run()
  std::size_t n = 0;
  std::size_t prefetch_distance = 0;  ///< elements (preferred_prefetch_distance()); 0: no prefetch
  std::uint32_t dither = 0;           ///< of the slice's first element (engine/dither.hpp), for bf16 moments
};

struct KernelVariant {
  ElementType grad = ElementType::f32;
  ElementType copy = ElementType::none;
  bool stale = false;
  AdamMode mode = AdamMode::adamw;
  bool decay = false;  ///< weight_decay != 0
  bool undo = false;   ///< the step can be finished after a kill at any instruction (engine/undo.hpp)
  /// The copy is the parameter, and p only has its lower bits. Where the bits of the copy are not those of p
  /// rounded, the program has written the copy, and the step begins from the copy's value. (A NaN in it
  /// becomes the machine's own.) Needs a copy, and never comes with stale or undo.
  bool truth = false;
  /// What p, m and v hold. Formats other than fp32 never come with stale or an fp16 copy. With split masters
  /// `copy` is none and `truth` false, because the high halves are no copy.
  StateFormat format = StateFormat::fp32;
};

/// Steps a slice once. Makes no allocation, lock or system call. The result is the same, bit for bit, on
/// every ISA and for every way to cut the elements into slices.
using AdamKernel = void (*)(const AdamScalars& scalars, const AdamArrays& arrays);

/// Returns the kernel of a variant. Precondition: is_supported(isa), and the types are those of GroupShape.
AdamKernel adam_kernel(Isa isa, const KernelVariant& variant);

/// Writes stale and copy of a slice from its p, with the same bits as the step. Does nothing if there are
/// neither, and with split masters.
using OutputKernel = void (*)(const AdamArrays& arrays);

/// Returns the kernel for the outputs of a variant. Its other members do not matter, but a copy must be
/// aligned also where it is the truth. Precondition: is_supported(isa).
OutputKernel output_kernel(Isa isa, const KernelVariant& variant);

/// Runs the roofline loop: the same 4 reads (p, g, m, v) and 3 writes (p, m, v) as a step, with one addition
/// each, so that only memory limits its speed. If `stale` is set, p is streamed there as well. Leaves finite,
/// non-denormal values if g is finite and positive.
void roofline_pass(Isa isa, const AdamArrays& arrays);

}  // namespace zf
