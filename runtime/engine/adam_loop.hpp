// Adam for any Lane: the one sequence of operations, and the loop for fp32 moments and masters. Included by
// lane_kernels.hpp, for kernel_<isa>.cpp. The other state formats are in narrow_loop.hpp.
//
// Everything is in an anonymous namespace on purpose. Each of these files is compiled for one instruction
// set. An inline function with external linkage would exist once per file, the linker would keep any one
// copy, and a machine without AVX-512 could run the AVX-512 copy. For the same reason these files call only
// intrinsics and C functions (tests/unit/engine/no_shared_code.sh checks the object files).
//
// A Lane has: width; F (width floats); set(x); load, store (any address); stream (64-byte aligned slices,
// past the caches if passes_caches); load_grad<type>(base, i); stream_copy<type>(base, i, value); store_copy,
// the same by an ordinary store to any address; where_rounded<type>(base, i, p, other), which is p where the
// 16-bit elements at `base` + i are the bits of p rounded, and `other` elsewhere; mul, fma(a, b, c) = a·b + c
// rounded once; div; sqrt; nan_made_canonical; fence().
#pragma once

#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "engine/kernel.hpp"
#include "engine/undo.hpp"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace zf {
namespace {

enum class Decay { none, l2, decoupled };

constexpr size_t size_of(ElementType type) { return type == ElementType::f32 ? 4 : 2; }

#if defined(__x86_64__)
/// Rounds to nearest and keeps denormals while it lives, whatever the caller has set. A training process
/// often flushes denormals (torch.set_flush_denormal, a library linked with -ffast-math), and a result must
/// not depend on that.
class StandardFloats {
 public:
  StandardFloats() : saved_(_mm_getcsr()) { set(0x1f80); }
  ~StandardFloats() { set(saved_); }
  StandardFloats(const StandardFloats&) = delete;
  StandardFloats& operator=(const StandardFloats&) = delete;

 private:
  static void set(unsigned mode) {
    asm volatile("" ::: "memory");  // no load or store moves across, and so no part of a step
    _mm_setcsr(mode);
    asm volatile("" ::: "memory");
  }
  unsigned saved_;
};
#elif defined(__aarch64__)
/// Does the same in FPCR.
class StandardFloats {
 public:
  StandardFloats() {
    asm volatile("mrs %0, fpcr" : "=r"(saved_) : : "memory");
    set(0);
  }
  ~StandardFloats() { set(saved_); }
  StandardFloats(const StandardFloats&) = delete;
  StandardFloats& operator=(const StandardFloats&) = delete;

 private:
  static void set(uint64_t mode) { asm volatile("msr fpcr, %0" : : "r"(mode) : "memory"); }
  uint64_t saved_;
};
#else
struct StandardFloats {
  StandardFloats() {}
};
#endif

inline constexpr size_t kLineFloats = 16;  // floats in a cache line

/// Keeps the compiler from moving loads and stores across. What the CPU does with their order:
/// docs/recovery.md.
inline void keep_order() { asm volatile("" ::: "memory"); }

/// The place where a thread records its undo: the log, the present run, and the number of the loop's first
/// element, counted from the start of the run.
struct UndoPlace {
  UndoLog* log;
  UndoRun* run;
  size_t first;
};

/// Steps one vector, in every state format. `g` is scaled, and its NaNs are canonical. The factors are those
/// of AdamScalars, one by one: GCC 12 keeps a struct of vectors in memory where the loop has an undo log,
/// also one that a structured binding takes apart at once (AVX-512: 23 accesses of the stack instead of
/// none).
template <class Lane, Decay kDecay, class F = typename Lane::F>
inline __attribute__((always_inline)) void step_vector(F beta1, F one_minus_beta1, F beta2, F one_minus_beta2,
                                                       F eps, F inv_sqrt_bias2, F step_size, F decay, F g,
                                                       F& p, F& m, F& v) {
  if constexpr (kDecay == Decay::l2) g = Lane::fma(p, decay, g);
  m = Lane::fma(g, one_minus_beta1, Lane::mul(m, beta1));
  v = Lane::fma(Lane::mul(g, g), one_minus_beta2, Lane::mul(v, beta2));
  const F denominator = Lane::fma(Lane::sqrt(v), inv_sqrt_bias2, eps);
  const F update = Lane::div(m, denominator);
  if constexpr (kDecay == Decay::decoupled) p = Lane::fma(p, decay, p);
  p = Lane::fma(update, step_size, p);
}

/// Prefetches the line of each array that holds element `i`. The element may lie beyond the end: a prefetch
/// never faults.
template <ElementType kGrad>
inline void prefetch_lines(size_t i, const float* p, const void* g, const float* m, const float* v) {
  __builtin_prefetch(p + i);
  __builtin_prefetch(m + i);
  __builtin_prefetch(v + i);
  __builtin_prefetch(static_cast<const char*>(g) + i * size_of(kGrad));
}

/// Steps [0, n) of `arrays`, where n is a multiple of the lane's width.
///
/// The loop is plain because nothing else was faster. On an AMD EPYC (Zen 4, AVX-512, 128M parameters, 55
/// GB/s on one thread, medians of interleaved ratios): unrolling by 2 and 4 was a tie; software prefetch was
/// a tie at 256 B ahead and lost 5 % at 512 B, 12 % at 2 KiB and 20 % at 8 KiB; joining two narrowed halves
/// into one 64-byte store was a tie. On an Intel Xeon (model 207, AVX-512, 20 GB/s on one thread) software
/// prefetch won 6 to 11 % at every distance from 512 B to 3 KiB, and unrolling added nothing to it
/// (preferred_prefetch_distance(), docs/arithmetic.md).
/// All loads come before all stores. Elements i of the arrays may differ only in high address bits, and a
/// load after a store would then seem to depend on it.
template <class Lane, ElementType kGrad, ElementType kCopy, bool kStale, Decay kDecay, bool kUndo,
          bool kTruth>
void step_whole_vectors(const AdamScalars& scalars, const AdamArrays& arrays, const UndoPlace& undo) {
  using F = typename Lane::F;
  // Local copies, because the compiler must assume that a vector store may change what a reference points to.
  float* const p_base = static_cast<float*>(arrays.p);
  const void* const g_base = arrays.g;
  float* const m_base = static_cast<float*>(arrays.m);
  float* const v_base = static_cast<float*>(arrays.v);
  float* const stale = arrays.stale;
  void* const copy = arrays.copy;
  const size_t n = arrays.n;
  const size_t prefetch_distance = arrays.prefetch_distance;
  UndoLog* const log = undo.log;
  uint64_t* const mark = kUndo ? &undo.run->mark : nullptr;
  const size_t first = undo.first;
  const uint64_t first_mark = kUndo ? kUndoBegun | (undo.run->begin + first) : 0;
  const F beta1 = Lane::set(scalars.beta1);
  const F one_minus_beta1 = Lane::set(scalars.one_minus_beta1);
  const F beta2 = Lane::set(scalars.beta2);
  const F one_minus_beta2 = Lane::set(scalars.one_minus_beta2);
  const F eps = Lane::set(scalars.eps);
  const F inv_sqrt_bias2 = Lane::set(scalars.inv_sqrt_bias2);
  const F step_size = Lane::set(scalars.step_size);
  const F decay = Lane::set(scalars.decay);
  const F grad_scale = Lane::set(scalars.grad_scale);

  for (size_t i = 0; i < n; i += Lane::width) {
    if (prefetch_distance != 0 && i % kLineFloats == 0) {
      prefetch_lines<kGrad>(i + prefetch_distance, p_base, g_base, m_base, v_base);
      if constexpr (kTruth)
        __builtin_prefetch(static_cast<const char*>(copy) + (i + prefetch_distance) * size_of(kCopy));
    }
    F g = Lane::mul(Lane::template load_grad<kGrad>(g_base, i), grad_scale);
    F p = Lane::load(p_base + i);
    F m = Lane::load(m_base + i);
    F v = Lane::load(v_base + i);
    // If one operation has two different NaNs, the result depends on the order of the operands in the
    // instruction, which the compiler chooses. With only one kind of NaN the order does not matter.
    g = Lane::nan_made_canonical(g);
    if constexpr (kTruth) {
      const F written = Lane::nan_made_canonical(Lane::template load_grad<kCopy>(copy, i));
      p = Lane::template where_rounded<kCopy>(copy, i, p, written);
    }
    if constexpr (kUndo) {
      const size_t place = (first + i) & Lane::width;
      Lane::store(log->p + place, p);
      Lane::store(log->m + place, m);
      Lane::store(log->v + place, v);
    }

    step_vector<Lane, kDecay>(beta1, one_minus_beta1, beta2, one_minus_beta2, eps, inv_sqrt_bias2, step_size,
                              decay, g, p, m, v);

    if constexpr (kUndo) {
      keep_order();  // the old values are stored, and the vector before is complete
      __atomic_store_n(mark, first_mark + i, __ATOMIC_RELAXED);
      keep_order();
    }
    Lane::store(p_base + i, p);
    Lane::store(m_base + i, m);
    Lane::store(v_base + i, v);
    if constexpr (kStale) Lane::stream(stale + i, p);
    if constexpr (kTruth) {
      Lane::template store_copy<kCopy>(copy, i, p);
    } else if constexpr (kCopy != ElementType::none) {
      Lane::template stream_copy<kCopy>(copy, i, p);
    }
  }
}

/// Steps a slice once: whole vectors first, then the rest as one vector on a padded copy.
template <class Lane, ElementType kGrad, ElementType kCopy, bool kStale, Decay kDecay, bool kUndo,
          bool kTruth>
void adam_step(const AdamScalars& scalars, const AdamArrays& arrays) {
  if (arrays.n == 0) return;  // an empty slice may begin anywhere
  assert(!kStale || reinterpret_cast<uintptr_t>(arrays.stale) % 64 == 0);
  assert(kCopy == ElementType::none || kTruth || reinterpret_cast<uintptr_t>(arrays.copy) % 64 == 0);
  const StandardFloats standard_floats;
  constexpr auto step = step_whole_vectors<Lane, kGrad, kCopy, kStale, kDecay, kUndo, kTruth>;
  const size_t rest = arrays.n % Lane::width;
  const size_t whole = arrays.n - rest;

  UndoPlace undo = {arrays.undo, nullptr, 0};
  if constexpr (kUndo) {
    static_assert(2 * Lane::width <= kUndoFloats);
    undo.run = &arrays.undo->runs[arrays.undo->current];
    undo.run->width = Lane::width;
  }

  AdamArrays body = arrays;
  body.n = whole;
  step(scalars, body, undo);

  if (rest != 0) {
    alignas(64) float p[Lane::width] = {};
    alignas(64) float m[Lane::width] = {};
    alignas(64) float v[Lane::width] = {};
    alignas(64) float stale[Lane::width];
    alignas(64) unsigned char g[Lane::width * size_of(kGrad)] = {};
    alignas(64) unsigned char copy[Lane::width * 2];
    float* const p_rest = static_cast<float*>(arrays.p) + whole;
    float* const m_rest = static_cast<float*>(arrays.m) + whole;
    float* const v_rest = static_cast<float*>(arrays.v) + whole;
    memcpy(p, p_rest, rest * sizeof(float));
    memcpy(m, m_rest, rest * sizeof(float));
    memcpy(v, v_rest, rest * sizeof(float));
    memcpy(g, static_cast<const char*>(arrays.g) + whole * size_of(kGrad), rest * size_of(kGrad));
    if constexpr (kTruth) {
      memset(copy, 0, sizeof(copy));
      memcpy(copy, static_cast<const char*>(arrays.copy) + whole * 2, rest * 2);
    }
    AdamArrays padded;
    padded.p = p;
    padded.g = g;
    padded.m = m;
    padded.v = v;
    padded.stale = stale;
    padded.copy = copy;
    padded.n = Lane::width;
    undo.first = whole;
    step(scalars, padded, undo);
    if constexpr (kUndo) keep_order();  // the mark says "begun" now
    memcpy(p_rest, p, rest * sizeof(float));
    memcpy(m_rest, m, rest * sizeof(float));
    memcpy(v_rest, v, rest * sizeof(float));
    if constexpr (kStale) memcpy(arrays.stale + whole, stale, rest * sizeof(float));
    if constexpr (kCopy != ElementType::none)
      memcpy(static_cast<char*>(arrays.copy) + whole * 2, copy, rest * 2);
  }
  if constexpr (kUndo) {
    keep_order();
    __atomic_store_n(&undo.run->mark, undo.run->begin + arrays.n, __ATOMIC_RELAXED);
  }
  // Non-temporal stores are not ordered with the ordinary store by which the caller then reports the slice as
  // done. The fence orders them.
  if constexpr (kStale || (kCopy != ElementType::none && !kTruth)) Lane::fence();
}

/// Computes p += g, m += g, v += g, with loads before stores as in the step. On the same EPYC non-temporal
/// stores took 1.6 times as long, and unrolling and prefetch tied or lost. On the same Xeon prefetch won 4 to
/// 7 %.
template <class Lane, bool kStale>
void roofline_loop(const AdamArrays& arrays) {
  using F = typename Lane::F;
  float* const p = static_cast<float*>(arrays.p);
  const void* const g_base = arrays.g;
  float* const m = static_cast<float*>(arrays.m);
  float* const v = static_cast<float*>(arrays.v);
  const size_t n = arrays.n;
  const size_t prefetch_distance = arrays.prefetch_distance;
  const size_t whole = n - n % Lane::width;
  for (size_t i = 0; i < whole; i += Lane::width) {
    if (prefetch_distance != 0 && i % kLineFloats == 0)
      prefetch_lines<ElementType::f32>(i + prefetch_distance, p, g_base, m, v);
    const F g = Lane::template load_grad<ElementType::f32>(g_base, i);
    const F new_p = Lane::add(Lane::load(p + i), g);
    const F new_m = Lane::add(Lane::load(m + i), g);
    const F new_v = Lane::add(Lane::load(v + i), g);
    Lane::store(p + i, new_p);
    Lane::store(m + i, new_m);
    Lane::store(v + i, new_v);
    if constexpr (kStale) Lane::stream(arrays.stale + i, new_p);
  }
  const float* const g = static_cast<const float*>(g_base);
  for (size_t i = whole; i < n; ++i) {
    p[i] += g[i];
    m[i] += g[i];
    v[i] += g[i];
    if constexpr (kStale) arrays.stale[i] = p[i];
  }
  if constexpr (kStale) Lane::fence();
}

template <class Lane>
void roofline_loop(const AdamArrays& arrays) {
  if (arrays.stale == nullptr) return roofline_loop<Lane, false>(arrays);
  roofline_loop<Lane, true>(arrays);
}

// Turn the values of a variant into the template instance: each stage makes one of them a constant.

template <class Lane, ElementType kGrad, ElementType kCopy, bool kStale, Decay kDecay>
AdamKernel kernel_by_undo(const KernelVariant& variant) {
  return variant.undo ? adam_step<Lane, kGrad, kCopy, kStale, kDecay, true, false>
                      : adam_step<Lane, kGrad, kCopy, kStale, kDecay, false, false>;
}

template <class Lane, ElementType kGrad, ElementType kCopy, bool kStale>
AdamKernel kernel_by_decay(const KernelVariant& variant) {
  if (!variant.decay) return kernel_by_undo<Lane, kGrad, kCopy, kStale, Decay::none>(variant);
  if (variant.mode == AdamMode::adam) return kernel_by_undo<Lane, kGrad, kCopy, kStale, Decay::l2>(variant);
  return kernel_by_undo<Lane, kGrad, kCopy, kStale, Decay::decoupled>(variant);
}

template <class Lane, ElementType kGrad, ElementType kCopy>
AdamKernel kernel_by_stale(const KernelVariant& variant) {
  return variant.stale ? kernel_by_decay<Lane, kGrad, kCopy, true>(variant)
                       : kernel_by_decay<Lane, kGrad, kCopy, false>(variant);
}

/// Makes the kernels of which the copy is the truth: without stale and undo.
template <class Lane, ElementType kGrad, ElementType kCopy>
AdamKernel truth_by_decay(const KernelVariant& variant) {
  assert(!variant.stale && !variant.undo);
  if (!variant.decay) return adam_step<Lane, kGrad, kCopy, false, Decay::none, false, true>;
  if (variant.mode == AdamMode::adam) return adam_step<Lane, kGrad, kCopy, false, Decay::l2, false, true>;
  return adam_step<Lane, kGrad, kCopy, false, Decay::decoupled, false, true>;
}

template <class Lane, ElementType kGrad, ElementType kCopy>
AdamKernel kernel_by_truth(const KernelVariant& variant) {
  if (variant.truth) return truth_by_decay<Lane, kGrad, kCopy>(variant);
  return kernel_by_stale<Lane, kGrad, kCopy>(variant);
}

template <class Lane, ElementType kGrad>
AdamKernel kernel_by_copy(const KernelVariant& variant) {
  switch (variant.copy) {
    case ElementType::bf16:
      assert(!variant.truth);  // narrow_kernel_of()
      return kernel_by_stale<Lane, kGrad, ElementType::bf16>(variant);
    case ElementType::f16:
      return kernel_by_truth<Lane, kGrad, ElementType::f16>(variant);
    case ElementType::f32:
    case ElementType::none:
      break;
  }
  assert(!variant.truth);
  return kernel_by_stale<Lane, kGrad, ElementType::none>(variant);
}

/// Returns the kernel for fp32 moments and masters.
template <class Lane>
AdamKernel fp32_kernel_of(const KernelVariant& variant) {
  switch (variant.grad) {
    case ElementType::bf16:
      return kernel_by_copy<Lane, ElementType::bf16>(variant);
    case ElementType::f16:
      return kernel_by_copy<Lane, ElementType::f16>(variant);
    case ElementType::f32:
    case ElementType::none:
      break;
  }
  return kernel_by_copy<Lane, ElementType::f32>(variant);
}

}  // namespace
}  // namespace zf
