// The loop of a step by single vectors, for any Lane and state format, and the roofline loop. Included as
// adam_loop.hpp is, under its rules.
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

#include "engine/slice_arrays.hpp"

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

/// Steps [0, n) of `slice`, where n is a multiple of the lane's width. Returns n.
///
/// The loop is plain because nothing else was faster. On an AMD EPYC (Zen 4, AVX-512, 128M parameters, 55
/// GB/s on one thread, medians of interleaved ratios): unrolling by 2 and 4 was a tie; software prefetch was
/// a tie at 256 B ahead and lost 5 % at 512 B, 12 % at 2 KiB and 20 % at 8 KiB; joining two narrowed halves
/// into one 64-byte store was a tie. On an Intel Xeon (model 207, AVX-512, 20 GB/s on one thread) software
/// prefetch won 6 to 11 % at every distance from 512 B to 3 KiB, and unrolling added nothing to it
/// (preferred_prefetch_distance(), docs/arithmetic.md).
/// All loads come before all stores. Elements i of the arrays may differ only in high address bits, and a
/// load after a store would then seem to depend on it.
template <class Lane, KernelVariant kVariant>
size_t step_vectors(const AdamScalars& scalars, const AdamArrays& slice, const UndoPlace& undo) {
  using F = typename Lane::F;
  using W = typename Lane::W;
  using Arrays = SliceArrays<kVariant>;
  constexpr bool kSplit = Arrays::kSplit;
  constexpr bool kHalves = Arrays::kHalves;
  constexpr bool kHasShortState = kSplit || kHalves;
  // Local copies, because the compiler must assume that a vector store may change what a reference points to.
  auto* const p_base = Arrays::p(slice);
  const auto* const g_base = Arrays::g(slice);
  auto* const m_base = Arrays::m(slice);
  auto* const v_base = Arrays::v(slice);
  float* const stale = slice.stale;
  uint16_t* const copy = Arrays::copy(slice);
  const size_t n = slice.n;
  const size_t prefetch_distance = slice.prefetch_distance;
  UndoLog* const log = undo.log;
  uint64_t* const mark = kVariant.undo ? &undo.run->mark : nullptr;
  const size_t first = undo.first;
  const uint64_t first_mark = kVariant.undo ? kUndoBegun | (undo.run->begin + first) : 0;
  const AdamScalars s = scalars;
  W dither = Lane::words(slice.dither, kDitherStride);
  const W stride = Lane::words(static_cast<uint32_t>(Lane::width) * kDitherStride, 0);

  for (size_t i = 0; i < n; i += Lane::width) {
    if (prefetch_distance != 0 && i % kLineFloats == 0) {
      prefetch_lines<kHasShortState>(i, prefetch_distance, p_base, g_base, m_base, v_base);
      if constexpr (Arrays::kReadsCopy) prefetch_line<kHasShortState>(copy, i, prefetch_distance);
    }
    F g = Lane::mul(Lane::template load_grad<kVariant.grad>(g_base, i), Lane::set(s.grad_scale));
    // If one operation has two different NaNs, the result depends on the order of the operands in the
    // instruction, which the compiler chooses. With only one kind of NaN the order does not matter.
    g = Lane::nan_made_canonical(g);
    F p;
    if constexpr (kSplit) {
      p = joined<Lane>(Lane::up(Lane::load_halves(copy + i)), Lane::load_signed_halves(p_base + i));
    } else {
      p = Lane::load(p_base + i);
    }
    F m;
    F v;
    if constexpr (kHalves) {
      m = Lane::floats(Lane::up(Lane::load_halves(m_base + i)));
      v = Lane::floats(Lane::up(Lane::load_halves(v_base + i)));
    } else {
      m = Lane::load(m_base + i);
      v = Lane::load(v_base + i);
    }
    if constexpr (kVariant.truth) {
      const F written = Lane::nan_made_canonical(Lane::template load_grad<kVariant.copy>(copy, i));
      p = Lane::template where_rounded<kVariant.copy>(copy, i, p, written);
    }
    if constexpr (kVariant.undo) {
      const size_t place = (first + i) & Lane::width;
      Lane::store(log->p + place, p);
      Lane::store(log->m + place, m);
      Lane::store(log->v + place, v);
    }

    step_vector<Lane, kVariant>(s, g, p, m, v);

    if constexpr (kVariant.undo) {
      keep_order();  // the old values are stored, and the vector before is complete
      __atomic_store_n(mark, first_mark + i, __ATOMIC_RELAXED);
      keep_order();
    }
    if constexpr (kSplit) {
      const Halves<Lane> halves(p);
      Lane::store_halves(copy + i, Lane::down(halves.high));
      Lane::store_halves(p_base + i, halves.low);
    } else {
      Lane::store(p_base + i, p);
    }
    if constexpr (kHalves) {
      const W lower = Lane::and_words(dither, Lane::words(0xffffU, 0));
      Lane::store_halves(m_base + i, Lane::down(dithered<Lane>(m, Lane::down(dither))));
      Lane::store_halves(v_base + i, Lane::down(dithered<Lane>(v, lower)));
      dither = Lane::add_words(dither, stride);
    } else {
      Lane::store(m_base + i, m);
      Lane::store(v_base + i, v);
    }
    if constexpr (kVariant.stale) Lane::stream(stale + i, p);
    if constexpr (kVariant.truth) {
      Lane::template store_copy<kVariant.copy>(copy, i, p);
    } else if constexpr (kVariant.copy != ElementType::none) {
      Lane::template stream_copy<kVariant.copy>(copy, i, p);
    }
  }
  return n;
}

/// Computes p += g, m += g, v += g, with loads before stores as in the step. On the same EPYC non-temporal
/// stores took 1.6 times as long, and unrolling and prefetch tied or lost. On the same Xeon prefetch won 4 to
/// 7 %.
template <class Lane, bool kStale>
void roofline_loop(const AdamArrays& slice) {
  using F = typename Lane::F;
  using Arrays = SliceArrays<KernelVariant{}>;
  auto* const p_base = Arrays::p(slice);
  const auto* const g_base = Arrays::g(slice);
  auto* const m_base = Arrays::m(slice);
  auto* const v_base = Arrays::v(slice);
  float* const stale = slice.stale;
  const size_t n = slice.n;
  const size_t prefetch_distance = slice.prefetch_distance;
  const size_t whole = n - n % Lane::width;
  for (size_t i = 0; i < whole; i += Lane::width) {
    if (prefetch_distance != 0 && i % kLineFloats == 0)
      prefetch_lines<false>(i, prefetch_distance, p_base, g_base, m_base, v_base);
    const F g = Lane::load(g_base + i);
    const F new_p = Lane::add(Lane::load(p_base + i), g);
    const F new_m = Lane::add(Lane::load(m_base + i), g);
    const F new_v = Lane::add(Lane::load(v_base + i), g);
    Lane::store(p_base + i, new_p);
    Lane::store(m_base + i, new_m);
    Lane::store(v_base + i, new_v);
    if constexpr (kStale) Lane::stream(stale + i, new_p);
  }
  for (size_t i = whole; i < n; ++i) {
    p_base[i] += g_base[i];
    m_base[i] += g_base[i];
    v_base[i] += g_base[i];
    if constexpr (kStale) stale[i] = p_base[i];
  }
  if constexpr (kStale) Lane::fence();
}

template <class Lane>
void roofline_loop(const AdamArrays& slice) {
  if (slice.stale == nullptr) return roofline_loop<Lane, false>(slice);
  roofline_loop<Lane, true>(slice);
}

}  // namespace
}  // namespace zf
