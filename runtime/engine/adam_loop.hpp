// Adam for any Lane: the one sequence of operations. Included by lane_kernels.hpp, for kernel_<isa>.cpp. The
// loops of a step are in vector_loop.hpp and two_vector_loops.hpp.
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

constexpr size_t size_of(ElementType type) { return type == ElementType::f32 ? 4 : 2; }

/// Returns the kernel that is made for a type.
template <class Kernel>
Kernel by_type(ElementType type, Kernel bf16, Kernel f16, Kernel otherwise) {
  return type == ElementType::bf16 ? bf16 : type == ElementType::f16 ? f16 : otherwise;
}

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

/// Steps one vector, in every state format. `g` is scaled, and its NaNs are canonical. `s` is a local copy of
/// the loop: then the compiler widens each factor once. GCC 12 keeps a struct of vectors in memory where the
/// loop has an undo log (AVX-512: 23 accesses of the stack instead of none).
template <class Lane, KernelVariant kVariant, class F = typename Lane::F>
inline __attribute__((always_inline)) void step_vector(const AdamScalars& s, F g, F& p, F& m, F& v) {
  constexpr bool kAddsDecay = kVariant.decay && kVariant.mode == AdamMode::adam;  // to the gradient
  if constexpr (kAddsDecay) g = Lane::fma(p, Lane::set(s.decay), g);
  m = Lane::fma(g, Lane::set(s.one_minus_beta1), Lane::mul(m, Lane::set(s.beta1)));
  v = Lane::fma(Lane::mul(g, g), Lane::set(s.one_minus_beta2), Lane::mul(v, Lane::set(s.beta2)));
  const F denominator = Lane::fma(Lane::sqrt(v), Lane::set(s.inv_sqrt_bias2), Lane::set(s.eps));
  const F update = Lane::div(m, denominator);
  if constexpr (kVariant.decay && !kAddsDecay) p = Lane::fma(p, Lane::set(s.decay), p);
  p = Lane::fma(update, Lane::set(s.step_size), p);
}

}  // namespace
}  // namespace zf
