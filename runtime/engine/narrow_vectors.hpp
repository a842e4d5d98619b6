// The state formats with fewer bytes than fp32, for any Lane: their arrays, and the loop by single vectors.
// Included as adam_loop.hpp is, under its rules.
//
// Beside the members that adam_loop.hpp lists, a Lane has: W (width words of 32 bits); words(first, stride),
// which are first + k * stride; bits and floats, which change between F and W; add_words, and_words,
// or_words; up, down, down_signed: shifts by 16 bits; where_number(a, then, otherwise), by what is no NaN in
// a; load_halves, load_signed_halves: words from 16 bits each, and store_halves, which stores their lower
// halves; load_words, store_words: whole words, at any even address; load_two: two vectors of consecutive
// elements of 16 bits, as the upper halves of words, and store_two, which stores upper halves, and
// stream_two, past the caches; has_nan(a, b); where_equal(a, b, then, otherwise).
//
// Tried and left: both moments in one 32-bit word (two arrays take 0.93 to 1.02 of its time), and the bf16
// instructions of AVX-512, which flush denormals and cannot dither.
#pragma once

#include <type_traits>

#include "engine/adam_loop.hpp"
#include "engine/dither.hpp"

namespace zf {
namespace {

/// Returns words with upper halves that are `value` as bf16: bf16_dithered(). `dither` is below 65536.
template <class Lane>
typename Lane::W dithered(typename Lane::F value, typename Lane::W dither) {
  const auto nan = Lane::words(0xffc00000U, 0);
  return Lane::where_number(value, Lane::add_words(Lane::bits(value), dither), nan);
}

/// Joins masters: f32_of_split(). `high` has its 16 bits in the upper halves and zeros below, `low` is
/// extended by its sign.
template <class Lane>
typename Lane::F joined(typename Lane::W high, typename Lane::W low) {
  const auto sum = Lane::add_words(high, low);
  return Lane::nan_made_canonical(Lane::floats(Lane::where_number(Lane::floats(sum), sum, high)));
}

/// Splits masters: split_of_f32(). The upper halves of `high` and the lower halves of `low` are the parts.
template <class Lane>
struct Halves {
  explicit Halves(typename Lane::F value) : low(Lane::bits(Lane::nan_made_canonical(value))) {
    high = Lane::add_words(low, Lane::words(0x8000U, 0));
  }
  typename Lane::W low;
  typename Lane::W high;
};

/// What a narrow kernel does.
struct NarrowVariant {
  StateFormat format;
  ElementType grad;
  ElementType copy;
  Decay decay;
  bool undo;
  bool truth;
};

constexpr NarrowVariant without_undo(NarrowVariant variant) {
  variant.undo = false;
  return variant;
}

/// The arrays of a slice with their types. `Master` and `Moment` are float or uint16_t.
template <NarrowVariant kVariant>
struct NarrowArrays {
  static constexpr bool kSplit = has_split_masters(kVariant.format);
  static constexpr bool kHalves = has_bf16_moments(kVariant.format);
  using Master = std::conditional_t<kSplit, uint16_t, float>;
  using Moment = std::conditional_t<kHalves, uint16_t, float>;

  explicit NarrowArrays(const AdamArrays& arrays)
      : p(static_cast<Master*>(arrays.p)),
        g(static_cast<const char*>(arrays.g)),
        m(static_cast<Moment*>(arrays.m)),
        v(static_cast<Moment*>(arrays.v)),
        copy(static_cast<uint16_t*>(arrays.copy)) {}
  Master* const p;
  const char* const g;
  Moment* const m;
  Moment* const v;
  uint16_t* const copy;
};

/// Prefetches the line of an array that holds element `i` + `distance`, once for each line if i rises by
/// whole vectors. Inlined by force: GCC 12 takes a function that only prefetches for one that does nothing,
/// and leaves out its calls.
template <class Element>
inline __attribute__((always_inline)) void prefetch_line(const Element* array, size_t i, size_t distance) {
  if (i % (64 / sizeof(Element)) == 0) __builtin_prefetch(array + i + distance);
}

/// Prefetches the lines of all arrays that begin at element `i`, a multiple of kLineFloats.
template <NarrowVariant kVariant>
inline __attribute__((always_inline)) void prefetch_narrow(const NarrowArrays<kVariant>& arrays, size_t i,
                                                           size_t distance) {
  using Gradient = std::conditional_t<kVariant.grad == ElementType::f32, float, uint16_t>;
  prefetch_line(arrays.p, i, distance);
  prefetch_line(reinterpret_cast<const Gradient*>(arrays.g), i, distance);
  prefetch_line(arrays.m, i, distance);
  prefetch_line(arrays.v, i, distance);
  if constexpr (NarrowArrays<kVariant>::kSplit || kVariant.truth) prefetch_line(arrays.copy, i, distance);
}

/// Steps [0, n) of `arrays`, where n is a multiple of the lane's width. Loads, undo and stores have the order
/// of step_whole_vectors(), for its reasons.
template <class Lane, NarrowVariant kVariant>
void step_narrow_vectors(const AdamScalars& scalars, const AdamArrays& slice, const UndoPlace& undo) {
  using F = typename Lane::F;
  using W = typename Lane::W;
  using Arrays = NarrowArrays<kVariant>;
  constexpr bool kSplit = Arrays::kSplit;
  constexpr bool kHalves = Arrays::kHalves;
  const Arrays arrays(slice);
  const size_t n = slice.n;
  const size_t prefetch_distance = slice.prefetch_distance;
  UndoLog* const log = undo.log;
  uint64_t* const mark = kVariant.undo ? &undo.run->mark : nullptr;
  const size_t first = undo.first;
  const uint64_t first_mark = kVariant.undo ? kUndoBegun | (undo.run->begin + first) : 0;
  const F beta1 = Lane::set(scalars.beta1);
  const F one_minus_beta1 = Lane::set(scalars.one_minus_beta1);
  const F beta2 = Lane::set(scalars.beta2);
  const F one_minus_beta2 = Lane::set(scalars.one_minus_beta2);
  const F eps = Lane::set(scalars.eps);
  const F inv_sqrt_bias2 = Lane::set(scalars.inv_sqrt_bias2);
  const F step_size = Lane::set(scalars.step_size);
  const F decay = Lane::set(scalars.decay);
  const F grad_scale = Lane::set(scalars.grad_scale);
  W dither = Lane::words(slice.dither, kDitherStride);
  const W stride = Lane::words(static_cast<uint32_t>(Lane::width) * kDitherStride, 0);

  for (size_t i = 0; i < n; i += Lane::width) {
    if (prefetch_distance != 0 && i % kLineFloats == 0) {
      prefetch_narrow<kVariant>(arrays, i, prefetch_distance);
    }
    F g = Lane::mul(Lane::template load_grad<kVariant.grad>(arrays.g, i), grad_scale);
    g = Lane::nan_made_canonical(g);
    F p;
    if constexpr (kSplit) {
      p = joined<Lane>(Lane::up(Lane::load_halves(arrays.copy + i)), Lane::load_signed_halves(arrays.p + i));
    } else {
      p = Lane::load(arrays.p + i);
    }
    F m;
    F v;
    if constexpr (kHalves) {
      m = Lane::floats(Lane::up(Lane::load_halves(arrays.m + i)));
      v = Lane::floats(Lane::up(Lane::load_halves(arrays.v + i)));
    } else {
      m = Lane::load(arrays.m + i);
      v = Lane::load(arrays.v + i);
    }
    if constexpr (kVariant.truth) {
      const F written = Lane::nan_made_canonical(Lane::template load_grad<kVariant.copy>(arrays.copy, i));
      p = Lane::template where_rounded<kVariant.copy>(arrays.copy, i, p, written);
    }
    if constexpr (kVariant.undo) {
      const size_t place = (first + i) & Lane::width;
      Lane::store(log->p + place, p);
      Lane::store(log->m + place, m);
      Lane::store(log->v + place, v);
    }

    step_vector<Lane, kVariant.decay>(beta1, one_minus_beta1, beta2, one_minus_beta2, eps, inv_sqrt_bias2,
                                      step_size, decay, g, p, m, v);

    if constexpr (kVariant.undo) {
      keep_order();  // the old values are stored, and the vector before is complete
      __atomic_store_n(mark, first_mark + i, __ATOMIC_RELAXED);
      keep_order();
    }
    if constexpr (kSplit) {
      const Halves<Lane> halves(p);
      Lane::store_halves(arrays.copy + i, Lane::down(halves.high));
      Lane::store_halves(arrays.p + i, halves.low);
    } else {
      Lane::store(arrays.p + i, p);
    }
    if constexpr (kHalves) {
      const W lower = Lane::and_words(dither, Lane::words(0xffffU, 0));
      Lane::store_halves(arrays.m + i, Lane::down(dithered<Lane>(m, Lane::down(dither))));
      Lane::store_halves(arrays.v + i, Lane::down(dithered<Lane>(v, lower)));
      dither = Lane::add_words(dither, stride);
    } else {
      Lane::store(arrays.m + i, m);
      Lane::store(arrays.v + i, v);
    }
    if constexpr (kVariant.truth) {
      Lane::template store_copy<kVariant.copy>(arrays.copy, i, p);
    } else if constexpr (kVariant.copy != ElementType::none) {
      Lane::template stream_copy<kVariant.copy>(arrays.copy, i, p);
    }
  }
}

/// Returns elements [begin, end) of a slice.
template <NarrowVariant kVariant>
AdamArrays part_of(const AdamArrays& slice, size_t begin, size_t end) {
  const NarrowArrays<kVariant> arrays(slice);
  AdamArrays part = slice;
  part.p = arrays.p + begin;
  part.g = arrays.g + begin * size_of(kVariant.grad);
  part.m = arrays.m + begin;
  part.v = arrays.v + begin;
  if (arrays.copy != nullptr) part.copy = arrays.copy + begin;
  part.n = end - begin;
  part.dither = dither_at(slice.dither, begin);
  return part;
}

}  // namespace
}  // namespace zf
