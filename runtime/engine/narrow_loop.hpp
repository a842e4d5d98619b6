// The kernels of the state formats with fewer bytes than fp32, for any Lane: a slice from its loops, and the
// choice of a variant. Included as adam_loop.hpp is, under its rules.
#pragma once

#include "engine/narrow_twos.hpp"

namespace zf {
namespace {

/// The last elements of a slice, fewer than the loop steps at once, on padded arrays.
template <class Lane, NarrowVariant kVariant>
class NarrowRest {
 public:
  /// Copies `rest` elements of the slice, from `whole` on.
  NarrowRest(const AdamArrays& slice, size_t whole, size_t rest) : of_(slice), whole_(whole), rest_(rest) {
    memcpy(p_, of_.p + whole, rest * sizeof *p_);
    memcpy(m_, of_.m + whole, rest * sizeof *m_);
    memcpy(v_, of_.v + whole, rest * sizeof *v_);
    memcpy(g_, of_.g + whole * size_of(kVariant.grad), rest * size_of(kVariant.grad));
    if constexpr (kReadsCopy) memcpy(copy_, of_.copy + whole, rest * sizeof *copy_);
  }
  /// Returns the padded arrays, with the other members of the slice.
  AdamArrays padded(AdamArrays slice) {
    slice.p = p_;
    slice.g = g_;
    slice.m = m_;
    slice.v = v_;
    slice.copy = copy_;
    slice.n = kPadded;
    slice.prefetch_distance = 0;
    slice.dither = dither_at(slice.dither, whole_);
    return slice;
  }
  /// Copies what was stepped back.
  void put_back() const {
    memcpy(of_.p + whole_, p_, rest_ * sizeof *p_);
    memcpy(of_.m + whole_, m_, rest_ * sizeof *m_);
    memcpy(of_.v + whole_, v_, rest_ * sizeof *v_);
    if constexpr (kReadsCopy || kVariant.copy != ElementType::none) {
      memcpy(of_.copy + whole_, copy_, rest_ * sizeof *copy_);
    }
  }

 private:
  using Arrays = NarrowArrays<kVariant>;
  static constexpr size_t kPadded = kAtOnce<Lane, kVariant>;
  static constexpr bool kReadsCopy = Arrays::kSplit || kVariant.truth;
  const Arrays of_;
  const size_t whole_;
  const size_t rest_;
  alignas(64) typename Arrays::Master p_[kPadded] = {};
  alignas(64) typename Arrays::Moment m_[kPadded] = {};
  alignas(64) typename Arrays::Moment v_[kPadded] = {};
  alignas(64) unsigned char g_[kPadded * size_of(kVariant.grad)] = {};
  alignas(64) uint16_t copy_[kPadded] = {};
};

/// Steps [0, n) of `slice`, where n is a multiple of kAtOnce.
template <class Lane, NarrowVariant kVariant>
void step_narrow(const AdamScalars& scalars, const AdamArrays& slice, const UndoPlace& undo) {
  if constexpr (kByPairs<kVariant>) {
    step_pairs<Lane, kVariant>(scalars, slice);
  } else if constexpr (kByTwos<kVariant>) {
    step_twos<Lane, kVariant>(scalars, slice, undo);
  } else {
    step_narrow_vectors<Lane, kVariant>(scalars, slice, undo);
  }
}

/// Steps a slice once: what fills the loop first, then the rest on a padded copy.
template <class Lane, NarrowVariant kVariant>
void narrow_step(const AdamScalars& scalars, const AdamArrays& slice) {
  if (slice.n == 0) return;  // an empty slice may begin anywhere
  constexpr bool kStreams = kVariant.copy != ElementType::none && !kVariant.truth;
  assert(!kStreams || reinterpret_cast<uintptr_t>(slice.copy) % 64 == 0);
  const StandardFloats standard_floats;
  const size_t rest = slice.n % kAtOnce<Lane, kVariant>;
  const size_t whole = slice.n - rest;
  UndoPlace undo = {slice.undo, nullptr, 0};
  if constexpr (kVariant.undo) {
    static_assert(2 * kAtOnce<Lane, kVariant> <= kUndoFloats);
    undo.run = &slice.undo->runs[slice.undo->current];
    undo.run->width = kAtOnce<Lane, kVariant>;
  }
  AdamArrays body = slice;
  body.n = whole;
  step_narrow<Lane, kVariant>(scalars, body, undo);
  if (rest != 0) {
    NarrowRest<Lane, kVariant> last(slice, whole, rest);
    undo.first = whole;
    step_narrow<Lane, kVariant>(scalars, last.padded(slice), undo);
    if constexpr (kVariant.undo) keep_order();  // the mark says "begun" now
    last.put_back();
  }
  if constexpr (kVariant.undo) {
    keep_order();
    __atomic_store_n(&undo.run->mark, undo.run->begin + slice.n, __ATOMIC_RELAXED);
  }
  if constexpr (kStreams) Lane::fence();  // as in adam_step()
}

template <class Lane, StateFormat kFormat, ElementType kGrad, ElementType kCopy, bool kUndo, bool kTruth>
AdamKernel narrow_by_decay(const KernelVariant& variant) {
  if (!variant.decay)
    return narrow_step<Lane, NarrowVariant{kFormat, kGrad, kCopy, Decay::none, kUndo, kTruth}>;
  if (variant.mode == AdamMode::adam)
    return narrow_step<Lane, NarrowVariant{kFormat, kGrad, kCopy, Decay::l2, kUndo, kTruth}>;
  return narrow_step<Lane, NarrowVariant{kFormat, kGrad, kCopy, Decay::decoupled, kUndo, kTruth}>;
}

template <class Lane, StateFormat kFormat, ElementType kGrad, ElementType kCopy>
AdamKernel narrow_by_undo(const KernelVariant& variant) {
  return variant.undo ? narrow_by_decay<Lane, kFormat, kGrad, kCopy, true, false>(variant)
                      : narrow_by_decay<Lane, kFormat, kGrad, kCopy, false, false>(variant);
}

template <class Lane, StateFormat kFormat, ElementType kGrad>
AdamKernel narrow_by_copy(const KernelVariant& variant) {
  if constexpr (kFormat == StateFormat::fp32) {
    assert(variant.copy == ElementType::bf16 && variant.truth && !variant.undo);
    return narrow_by_decay<Lane, kFormat, kGrad, ElementType::bf16, false, true>(variant);
  } else if constexpr (has_split_masters(kFormat)) {
    assert(variant.copy == ElementType::none && !variant.truth);
    return narrow_by_undo<Lane, kFormat, kGrad, ElementType::none>(variant);
  } else {
    assert(variant.copy == ElementType::none || variant.copy == ElementType::bf16);
    assert(!variant.truth || (variant.copy == ElementType::bf16 && !variant.undo));
    if (variant.truth) return narrow_by_decay<Lane, kFormat, kGrad, ElementType::bf16, false, true>(variant);
    return variant.copy == ElementType::bf16
               ? narrow_by_undo<Lane, kFormat, kGrad, ElementType::bf16>(variant)
               : narrow_by_undo<Lane, kFormat, kGrad, ElementType::none>(variant);
  }
}

template <class Lane, StateFormat kFormat>
AdamKernel narrow_by_grad(const KernelVariant& variant) {
  switch (variant.grad) {
    case ElementType::bf16:
      return narrow_by_copy<Lane, kFormat, ElementType::bf16>(variant);
    case ElementType::f16:
      return narrow_by_copy<Lane, kFormat, ElementType::f16>(variant);
    case ElementType::f32:
    case ElementType::none:
      break;
  }
  return narrow_by_copy<Lane, kFormat, ElementType::f32>(variant);
}

/// Returns the kernel for a format other than fp32, or for bf16 parameters beside fp32 masters.
template <class Lane>
AdamKernel narrow_kernel_of(const KernelVariant& variant) {
  assert(!variant.stale);
  if (variant.format == StateFormat::fp32) return narrow_by_grad<Lane, StateFormat::fp32>(variant);
  if (variant.format == StateFormat::bf16) return narrow_by_grad<Lane, StateFormat::bf16>(variant);
  if (variant.format == StateFormat::split) return narrow_by_grad<Lane, StateFormat::split>(variant);
  return narrow_by_grad<Lane, StateFormat::bf16_split>(variant);
}

}  // namespace
}  // namespace zf
