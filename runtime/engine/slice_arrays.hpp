// The arrays of a slice with their types, and the copy of its last elements that fills a loop. Included as
// adam_loop.hpp is, under its rules.
#pragma once

#include <type_traits>

#include "engine/adam_loop.hpp"
#include "engine/dither.hpp"

namespace zf {
namespace {

/// The types of a slice's arrays, and the arrays with these types. A loop keeps them as single pointers: GCC
/// 12 keeps a struct of them in memory where the loop has an undo log. Taken apart at once, by a structured
/// binding, it leaves 117 functions of the AVX-512 kernels with more accesses to the stack, and 60 with
/// fewer.
template <KernelVariant kVariant>
struct SliceArrays {
  static constexpr bool kSplit = has_split_masters(kVariant.format);
  static constexpr bool kHalves = has_bf16_moments(kVariant.format);
  static constexpr bool kReadsCopy = kSplit || kVariant.truth;
  static constexpr bool kStreamsCopy = kVariant.copy != ElementType::none && !kVariant.truth;
  using Master = std::conditional_t<kSplit, uint16_t, float>;
  using Moment = std::conditional_t<kHalves, uint16_t, float>;
  using Gradient = std::conditional_t<kVariant.grad == ElementType::f32, float, uint16_t>;

  static Master* p(const AdamArrays& slice) { return static_cast<Master*>(slice.p); }
  static const Gradient* g(const AdamArrays& slice) { return static_cast<const Gradient*>(slice.g); }
  static Moment* m(const AdamArrays& slice) { return static_cast<Moment*>(slice.m); }
  static Moment* v(const AdamArrays& slice) { return static_cast<Moment*>(slice.v); }
  static uint16_t* copy(const AdamArrays& slice) { return static_cast<uint16_t*>(slice.copy); }
};

/// Returns elements [begin, end) of a slice.
template <KernelVariant kVariant>
AdamArrays part_of(const AdamArrays& slice, size_t begin, size_t end) {
  using Arrays = SliceArrays<kVariant>;
  AdamArrays part = slice;
  part.p = Arrays::p(slice) + begin;
  part.g = Arrays::g(slice) + begin;
  part.m = Arrays::m(slice) + begin;
  part.v = Arrays::v(slice) + begin;
  if constexpr (kVariant.stale) part.stale = slice.stale + begin;
  if (slice.copy != nullptr) part.copy = Arrays::copy(slice) + begin;
  part.n = end - begin;
  part.dither = dither_at(slice.dither, begin);
  return part;
}

/// Prefetches the line of an array that holds element `i` + `distance`: always, or only if `i` begins a line.
/// The element may lie beyond the end: a prefetch never faults. Inlined by force: GCC 12 takes a function
/// that only prefetches for one that does nothing, and leaves out its calls.
template <bool kOnce, class Element>
inline __attribute__((always_inline)) void prefetch_line(const Element* array, size_t i, size_t distance) {
  if (!kOnce || i % (64 / sizeof(Element)) == 0) __builtin_prefetch(array + i + distance);
}

/// Prefetches the lines of all arrays `distance` elements ahead of `i`, a multiple of kLineFloats. With kOnce
/// it prefetches no line of 16-bit elements twice, which takes a test for each array.
template <bool kOnce, class Master, class Gradient, class Moment>
inline __attribute__((always_inline)) void prefetch_lines(size_t i, size_t distance, const Master* p,
                                                          const Gradient* g, const Moment* m,
                                                          const Moment* v) {
  prefetch_line<kOnce>(p, i, distance);
  prefetch_line<kOnce>(g, i, distance);
  prefetch_line<kOnce>(m, i, distance);
  prefetch_line<kOnce>(v, i, distance);
}

/// The last elements of a slice, fewer than the kAtOnce that a loop does at once, on padded arrays.
template <KernelVariant kVariant, size_t kAtOnce>
class PaddedRest {
 public:
  /// Copies `rest` elements of the slice, from `whole` on.
  PaddedRest(const AdamArrays& slice, size_t whole, size_t rest)
      : of_(part_of<kVariant>(slice, whole, whole + rest)) {
    for (auto& padding : v_) padding = kOne;  // with 0 and an eps of 0 the padding would become NaN
    memcpy(p_, of_.p, rest * sizeof *p_);
    memcpy(m_, of_.m, rest * sizeof *m_);
    memcpy(v_, of_.v, rest * sizeof *v_);
    memcpy(g_, of_.g, rest * sizeof *g_);
    if constexpr (Arrays::kReadsCopy) memcpy(copy_, of_.copy, rest * sizeof *copy_);
  }
  /// Returns the padded arrays, with the other members of the slice.
  AdamArrays padded() {
    AdamArrays padded = of_;
    padded.p = p_;
    padded.g = g_;
    padded.m = m_;
    padded.v = v_;
    padded.stale = stale_;
    padded.copy = copy_;
    padded.n = kAtOnce;
    padded.prefetch_distance = 0;
    return padded;
  }
  /// Copies what was stepped back.
  void put_back() const {
    memcpy(of_.p, p_, of_.n * sizeof *p_);
    memcpy(of_.m, m_, of_.n * sizeof *m_);
    memcpy(of_.v, v_, of_.n * sizeof *v_);
    if constexpr (kVariant.stale) memcpy(of_.stale, stale_, of_.n * sizeof *stale_);
    if constexpr (Arrays::kReadsCopy || Arrays::kStreamsCopy) memcpy(of_.copy, copy_, of_.n * sizeof *copy_);
  }

 private:
  using Arrays = SliceArrays<kVariant>;
  static constexpr typename Arrays::Moment kOne = Arrays::kHalves ? 0x3f80 : 1;
  const AdamArrays of_;
  alignas(64) typename Arrays::Master p_[kAtOnce] = {};
  alignas(64) typename Arrays::Moment m_[kAtOnce] = {};
  alignas(64) typename Arrays::Moment v_[kAtOnce];
  alignas(64) typename Arrays::Gradient g_[kAtOnce] = {};
  alignas(64) float stale_[kVariant.stale ? kAtOnce : 1];
  alignas(64) uint16_t copy_[kAtOnce] = {};
};

/// Runs `loop` over a slice: over what fills it first, then over the rest on a padded copy. `loop` gets
/// arrays and their place in the undo log, and returns how many elements it did. If it does fewer than it
/// got, this stops there. Returns how many were done.
template <KernelVariant kVariant, size_t kAtOnce, class Loop>
size_t over_slice(const AdamArrays& slice, Loop loop) {
  const StandardFloats standard_floats;
  const size_t rest = slice.n % kAtOnce;
  const size_t whole = slice.n - rest;
  UndoPlace undo = {slice.undo, nullptr, 0};
  if constexpr (kVariant.undo) {
    static_assert(2 * kAtOnce <= kUndoFloats);
    undo.run = &slice.undo->runs[slice.undo->current];
    undo.run->width = kAtOnce;
  }
  AdamArrays body = slice;
  body.n = whole;
  size_t done = loop(body, undo);
  if (rest != 0 && done == whole) {
    PaddedRest<kVariant, kAtOnce> last(slice, whole, rest);
    undo.first = whole;
    if (loop(last.padded(), undo) != 0) {
      if constexpr (kVariant.undo) keep_order();  // the mark says "begun" now
      last.put_back();
      done = slice.n;
    }
  }
  if constexpr (kVariant.undo) {
    keep_order();
    __atomic_store_n(&undo.run->mark, undo.run->begin + done, __ATOMIC_RELAXED);
  }
  return done;
}

}  // namespace
}  // namespace zf
