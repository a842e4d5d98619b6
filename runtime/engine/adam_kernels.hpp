// The kernels of a step, for any Lane: a slice from its loops, and the choice of a variant. Included as
// adam_loop.hpp is, under its rules.
#pragma once

#include "engine/chosen_kernel.hpp"
#include "engine/two_vector_loops.hpp"

namespace zf {
namespace {

/// Steps [0, n) of `slice`, where n is a multiple of kAtOnce. Returns n.
template <class Lane, KernelVariant kVariant>
size_t step_loop(const AdamScalars& scalars, const AdamArrays& slice, const UndoPlace& undo) {
  if constexpr (kByPairs<kVariant>) {
    return step_pairs<Lane, kVariant>(scalars, slice);
  } else if constexpr (kByTwos<kVariant>) {
    return step_twos<Lane, kVariant>(scalars, slice, undo);
  } else {
    return step_vectors<Lane, kVariant>(scalars, slice, undo);
  }
}

/// Steps a slice once.
template <class Lane, KernelVariant kVariant>
void adam_step(const AdamScalars& scalars, const AdamArrays& slice) {
  if (slice.n == 0) return;  // an empty slice may begin anywhere
  constexpr bool kStreamsCopy = SliceArrays<kVariant>::kStreamsCopy;
  assert(!kVariant.stale || reinterpret_cast<uintptr_t>(slice.stale) % 64 == 0);
  assert(!kStreamsCopy || reinterpret_cast<uintptr_t>(slice.copy) % 64 == 0);
  over_slice<kVariant, kAtOnce<Lane, kVariant>>(slice, [&](const AdamArrays& part, const UndoPlace& undo) {
    return step_loop<Lane, kVariant>(scalars, part, undo);
  });
  // Non-temporal stores are not ordered with the ordinary store by which the caller then reports the slice as
  // done. The fence orders them.
  if constexpr (kVariant.stale || kStreamsCopy) Lane::fence();
}

/// The kernels of a step.
template <class Lane>
struct AdamKernels {
  template <KernelVariant kVariant>
  static constexpr AdamKernel kKernel = adam_step<Lane, kVariant>;

  /// Returns whether there is a kernel: kernel.hpp says what comes together.
  static constexpr bool exists(KernelVariant variant) {
    if (variant.mode == AdamMode::adam && !variant.decay) return false;  // the same as adamw
    if (variant.truth && (variant.copy == ElementType::none || variant.stale || variant.undo)) return false;
    if (variant.format == StateFormat::fp32) return true;
    if (has_split_masters(variant.format)) return variant.copy == ElementType::none && !variant.stale;
    return variant.copy != ElementType::f16 && !variant.stale;
  }
};

/// Returns the kernel of a variant. Precondition: there is one.
template <class Lane>
AdamKernel kernel_of(const KernelVariant& variant) {
  using Type = ElementType;
  using Format = StateFormat;
  using V = KernelVariant;
  KernelVariant wanted = variant;
  if (!wanted.decay) wanted.mode = AdamMode::adamw;
  assert(AdamKernels<Lane>::exists(wanted));
  return chosen_kernel<AdamKernels<Lane>>(
      wanted, MemberChoice<&V::format, Format::fp32, Format::bf16, Format::split, Format::bf16_split>(),
      MemberChoice<&V::grad, Type::f32, Type::bf16, Type::f16>(),
      MemberChoice<&V::copy, Type::none, Type::bf16, Type::f16>(), MemberFlag<&V::truth>(),
      MemberFlag<&V::stale>(), MemberFlag<&V::undo>(), MemberFlag<&V::decay>(),
      MemberChoice<&V::mode, AdamMode::adamw, AdamMode::adam>());
}

}  // namespace
}  // namespace zf
