// Adam for any Lane and the state formats with fewer bytes than fp32. Included as adam_loop.hpp is, under its
// rules.
//
// Beside the members that adam_loop.hpp lists, a Lane has: W (width words of 32 bits); words(first, stride),
// which are first + k * stride; bits and floats, which change between F and W; add_words, and_words,
// or_words; up, down, down_signed: shifts by 16 bits; where_number(a, then, otherwise), by what is no NaN in
// a; load_halves, load_signed_halves: words from 16 bits each, and store_halves, which stores their lower
// halves; load_words, store_words: whole words, at any even address; load_two: two vectors of consecutive
// elements of 16 bits, as the upper halves of words, and store_two, which stores upper halves; has_nan(a, b);
// where_equal(a, b, then, otherwise).
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

/// True where all arrays have elements of 16 bits, and no undo log asks for another order: then two vectors
/// go through the loop at once, the even elements and the odd ones, and no element has to move within its
/// vector. On an Intel Xeon (AMX, 128M parameters, 2 threads beside other work, 2026-11-26) bf16+split
/// became 1.44 times as fast as fp32 by this, instead of 1.32 times.
template <NarrowVariant kVariant>
inline constexpr bool kByPairs =
    kVariant.format == StateFormat::bf16_split&& kVariant.grad == ElementType::bf16 && !kVariant.undo;

/// True where moments or bf16 parameters beside fp32 masters have 16 bits: two vectors in order go through
/// the loop at once. They move within their vectors together, and one test for NaNs serves both. On an AMD
/// EPYC (family 25, AVX2, 16.8M bf16 parameters, 1 thread) a step takes 16.8 ms with bf16 moments instead
/// of 19.9, and 15.7 with fp32 ones instead of 17.2.
template <NarrowVariant kVariant>
inline constexpr bool kByTwos =
    !kVariant.undo && !has_split_masters(kVariant.format) &&
    (kVariant.truth ? kVariant.copy == ElementType::bf16 : kVariant.copy == ElementType::none);

/// Rounds masters to bf16 in the upper halves of words. Wrong for NaNs.
template <class Lane>
typename Lane::W rounded(typename Lane::F value) {
  const auto bits = Lane::bits(value);
  const auto odd = Lane::and_words(Lane::down(bits), Lane::words(1, 0));
  return Lane::add_words(Lane::add_words(bits, Lane::words(0x7fffU, 0)), odd);
}

/// Steps [0, n) of `slice`, where n is a multiple of twice the lane's width.
///
/// This loop is wrong for NaNs. A NaN in the gradient, the master, the parameter or a moment makes the new
/// master NaN. Then nothing is stored, and step_narrow_vectors() steps both vectors.
template <class Lane, NarrowVariant kVariant>
void step_twos(const AdamScalars& scalars, const AdamArrays& slice) {
  using F = typename Lane::F;
  using W = typename Lane::W;
  constexpr size_t width = Lane::width;
  constexpr bool kHalves = NarrowArrays<kVariant>::kHalves;
  const NarrowArrays<kVariant> arrays(slice);
  const size_t n = slice.n;
  const size_t prefetch_distance = slice.prefetch_distance;
  const F beta1 = Lane::set(scalars.beta1);
  const F one_minus_beta1 = Lane::set(scalars.one_minus_beta1);
  const F beta2 = Lane::set(scalars.beta2);
  const F one_minus_beta2 = Lane::set(scalars.one_minus_beta2);
  const F eps = Lane::set(scalars.eps);
  const F inv_sqrt_bias2 = Lane::set(scalars.inv_sqrt_bias2);
  const F step_size = Lane::set(scalars.step_size);
  const F decay = Lane::set(scalars.decay);
  const F grad_scale = Lane::set(scalars.grad_scale);
  const W upper_mask = Lane::words(0xffff0000U, 0);
  const W lower_mask = Lane::words(0xffffU, 0);
  const W stride = Lane::words(static_cast<uint32_t>(width) * kDitherStride, 0);
  W dither = Lane::words(slice.dither, kDitherStride);

  for (size_t i = 0; i < n; i += 2 * width) {
    if (prefetch_distance != 0) {
      for (size_t at = i; at < i + 2 * width; at += width) {
        if (at % kLineFloats == 0) prefetch_narrow<kVariant>(arrays, at, prefetch_distance);
      }
    }
    const F first_g = Lane::mul(Lane::template load_grad<kVariant.grad>(arrays.g, i), grad_scale);
    const F second_g = Lane::mul(Lane::template load_grad<kVariant.grad>(arrays.g, i + width), grad_scale);
    F first_p = Lane::load(arrays.p + i);
    F second_p = Lane::load(arrays.p + i + width);
    F first_m, second_m, first_v, second_v;
    if constexpr (kHalves) {
      const auto m = Lane::load_two(arrays.m + i);
      const auto v = Lane::load_two(arrays.v + i);
      first_m = Lane::floats(m.first);
      second_m = Lane::floats(m.second);
      first_v = Lane::floats(v.first);
      second_v = Lane::floats(v.second);
    } else {
      first_m = Lane::load(arrays.m + i);
      second_m = Lane::load(arrays.m + i + width);
      first_v = Lane::load(arrays.v + i);
      second_v = Lane::load(arrays.v + i + width);
    }
    if constexpr (kVariant.truth) {
      const auto written = Lane::load_two(arrays.copy + i);
      first_p = Lane::where_equal(Lane::and_words(rounded<Lane>(first_p), upper_mask), written.first, first_p,
                                  Lane::floats(written.first));
      second_p = Lane::where_equal(Lane::and_words(rounded<Lane>(second_p), upper_mask), written.second,
                                   second_p, Lane::floats(written.second));
    }

    step_vector<Lane, kVariant.decay>(beta1, one_minus_beta1, beta2, one_minus_beta2, eps, inv_sqrt_bias2,
                                      step_size, decay, first_g, first_p, first_m, first_v);
    step_vector<Lane, kVariant.decay>(beta1, one_minus_beta1, beta2, one_minus_beta2, eps, inv_sqrt_bias2,
                                      step_size, decay, second_g, second_p, second_m, second_v);

    const W second_dither = Lane::add_words(dither, stride);
    if (Lane::has_nan(first_p, second_p)) [[unlikely]] {
      AdamArrays part = part_of<kVariant>(slice, i, i + 2 * width);
      part.prefetch_distance = 0;
      step_narrow_vectors<Lane, kVariant>(scalars, part, {nullptr, nullptr, 0});
    } else {
      Lane::store(arrays.p + i, first_p);
      Lane::store(arrays.p + i + width, second_p);
      if constexpr (kHalves) {
        Lane::store_two(arrays.m + i, Lane::add_words(Lane::bits(first_m), Lane::down(dither)),
                        Lane::add_words(Lane::bits(second_m), Lane::down(second_dither)));
        Lane::store_two(arrays.v + i,
                        Lane::add_words(Lane::bits(first_v), Lane::and_words(dither, lower_mask)),
                        Lane::add_words(Lane::bits(second_v), Lane::and_words(second_dither, lower_mask)));
      } else {
        Lane::store(arrays.m + i, first_m);
        Lane::store(arrays.m + i + width, second_m);
        Lane::store(arrays.v + i, first_v);
        Lane::store(arrays.v + i + width, second_v);
      }
      if constexpr (kVariant.truth)
        Lane::store_two(arrays.copy + i, rounded<Lane>(first_p), rounded<Lane>(second_p));
    }
    dither = Lane::add_words(second_dither, stride);
  }
}

/// Two vectors of masters and moments.
template <class Lane>
struct Pair {
  typename Lane::F even, odd;
};

/// Returns the even and the odd elements of bf16.
template <class Lane>
Pair<Lane> pair_of(typename Lane::W words) {
  return {Lane::floats(Lane::up(words)), Lane::floats(Lane::and_words(words, Lane::words(0xffff0000U, 0)))};
}

/// Returns the upper halves of both, as pairs of 16 bits.
template <class Lane>
typename Lane::W upper_halves(typename Lane::W even, typename Lane::W odd) {
  return Lane::or_words(Lane::down(even), Lane::and_words(odd, Lane::words(0xffff0000U, 0)));
}

/// Steps [0, n) of `slice`, where n is a multiple of twice the lane's width.
template <class Lane, NarrowVariant kVariant>
void step_pairs(const AdamScalars& scalars, const AdamArrays& slice) {
  using F = typename Lane::F;
  using W = typename Lane::W;
  const NarrowArrays<kVariant> arrays(slice);
  const auto* const g_base = reinterpret_cast<const uint16_t*>(arrays.g);
  const size_t n = slice.n;
  const size_t prefetch_distance = slice.prefetch_distance;
  const F beta1 = Lane::set(scalars.beta1);
  const F one_minus_beta1 = Lane::set(scalars.one_minus_beta1);
  const F beta2 = Lane::set(scalars.beta2);
  const F one_minus_beta2 = Lane::set(scalars.one_minus_beta2);
  const F eps = Lane::set(scalars.eps);
  const F inv_sqrt_bias2 = Lane::set(scalars.inv_sqrt_bias2);
  const F step_size = Lane::set(scalars.step_size);
  const F decay = Lane::set(scalars.decay);
  const F grad_scale = Lane::set(scalars.grad_scale);
  const W lower_mask = Lane::words(0xffffU, 0);
  const W one = Lane::words(kDitherStride, 0);
  const W stride = Lane::words(static_cast<uint32_t>(2 * Lane::width) * kDitherStride, 0);
  W dither = Lane::words(slice.dither, 2 * kDitherStride);

  for (size_t i = 0; i < n; i += 2 * Lane::width) {
    if (prefetch_distance != 0) prefetch_narrow<kVariant>(arrays, i, prefetch_distance);
    const W high = Lane::load_words(arrays.copy + i);
    const W low = Lane::load_words(arrays.p + i);
    const Pair<Lane> g = pair_of<Lane>(Lane::load_words(g_base + i));
    Pair<Lane> m = pair_of<Lane>(Lane::load_words(arrays.m + i));
    Pair<Lane> v = pair_of<Lane>(Lane::load_words(arrays.v + i));
    const Pair<Lane> upper = pair_of<Lane>(high);
    Pair<Lane> p = {joined<Lane>(Lane::bits(upper.even), Lane::down_signed(Lane::up(low))),
                    joined<Lane>(Lane::bits(upper.odd), Lane::down_signed(low))};
    const F even_g = Lane::nan_made_canonical(Lane::mul(g.even, grad_scale));
    const F odd_g = Lane::nan_made_canonical(Lane::mul(g.odd, grad_scale));

    step_vector<Lane, kVariant.decay>(beta1, one_minus_beta1, beta2, one_minus_beta2, eps, inv_sqrt_bias2,
                                      step_size, decay, even_g, p.even, m.even, v.even);
    step_vector<Lane, kVariant.decay>(beta1, one_minus_beta1, beta2, one_minus_beta2, eps, inv_sqrt_bias2,
                                      step_size, decay, odd_g, p.odd, m.odd, v.odd);

    const Halves<Lane> even(p.even);
    const Halves<Lane> odd(p.odd);
    const W odd_dither = Lane::add_words(dither, one);
    Lane::store_words(arrays.copy + i, upper_halves<Lane>(even.high, odd.high));
    Lane::store_words(arrays.p + i, Lane::or_words(Lane::and_words(even.low, lower_mask), Lane::up(odd.low)));
    Lane::store_words(arrays.m + i, upper_halves<Lane>(dithered<Lane>(m.even, Lane::down(dither)),
                                                       dithered<Lane>(m.odd, Lane::down(odd_dither))));
    Lane::store_words(arrays.v + i,
                      upper_halves<Lane>(dithered<Lane>(v.even, Lane::and_words(dither, lower_mask)),
                                         dithered<Lane>(v.odd, Lane::and_words(odd_dither, lower_mask))));
    dither = Lane::add_words(dither, stride);
  }
}

/// The last elements of a slice, fewer than a vector, on padded arrays.
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
    slice.n = Lane::width;
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
  static constexpr bool kReadsCopy = Arrays::kSplit || kVariant.truth;
  const Arrays of_;
  const size_t whole_;
  const size_t rest_;
  alignas(64) typename Arrays::Master p_[Lane::width] = {};
  alignas(64) typename Arrays::Moment m_[Lane::width] = {};
  alignas(64) typename Arrays::Moment v_[Lane::width] = {};
  alignas(64) unsigned char g_[Lane::width * size_of(kVariant.grad)] = {};
  alignas(64) uint16_t copy_[Lane::width] = {};
};

/// Steps a slice once: whole vectors first, then the rest as one vector on a padded copy.
template <class Lane, NarrowVariant kVariant>
void narrow_step(const AdamScalars& scalars, const AdamArrays& slice) {
  if (slice.n == 0) return;  // an empty slice may begin anywhere
  constexpr bool kStreams = kVariant.copy != ElementType::none && !kVariant.truth;
  assert(!kStreams || reinterpret_cast<uintptr_t>(slice.copy) % 64 == 0);
  const StandardFloats standard_floats;
  const size_t rest = slice.n % Lane::width;
  const size_t whole = slice.n - rest;
  UndoPlace undo = {slice.undo, nullptr, 0};
  if constexpr (kVariant.undo) {
    undo.run = &slice.undo->runs[slice.undo->current];
    undo.run->width = Lane::width;
  }
  size_t begin = 0;
  if constexpr (kByPairs<kVariant>) {
    begin = whole - whole % (2 * Lane::width);
    step_pairs<Lane, kVariant>(scalars, part_of<kVariant>(slice, 0, begin));
  } else if constexpr (kByTwos<kVariant>) {
    begin = whole - whole % (2 * Lane::width);
    step_twos<Lane, kVariant>(scalars, part_of<kVariant>(slice, 0, begin));
  }
  step_narrow_vectors<Lane, kVariant>(scalars, part_of<kVariant>(slice, begin, whole), undo);
  if (rest != 0) {
    NarrowRest<Lane, kVariant> last(slice, whole, rest);
    undo.first = whole;
    step_narrow_vectors<Lane, kVariant>(scalars, last.padded(slice), undo);
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
