// The loops that step two vectors at once, where a state format and a kernel allow it. Included as
// adam_loop.hpp is, under its rules.
#pragma once

#include "engine/vector_loop.hpp"

namespace zf {
namespace {

/// True where all arrays have elements of 16 bits, and no undo log asks for another order: then two vectors
/// go through the loop at once, the even elements and the odd ones, and no element has to move within its
/// vector. On an Intel Xeon (AMX, 128M parameters, 2 threads beside other work, 2026-11-26) bf16+split
/// became 1.44 times as fast as fp32 by this, instead of 1.32 times.
template <KernelVariant kVariant>
inline constexpr bool kByPairs =
    kVariant.format == StateFormat::bf16_split&& kVariant.grad == ElementType::bf16 && !kVariant.undo;

/// True where masters are fp32 beside bf16 moments or parameters: two vectors in order go through the loop at
/// once. They move within their vectors together, and one test for NaNs serves both. On an AMD EPYC (family
/// 25, AVX2, 16.8M bf16 parameters, 1 thread) a step takes 16.8 ms with bf16 moments instead of 19.9,
/// and 15.7 with fp32 ones instead of 17.2. With bf16 moments, a bf16 copy and an undo log (64M parameters, 1
/// thread) it takes 51 ms instead of 62.
template <KernelVariant kVariant>
inline constexpr bool kByTwos = kVariant.format == StateFormat::bf16 ||
                                (kVariant.format == StateFormat::fp32 && kVariant.truth &&
                                 kVariant.copy == ElementType::bf16);

/// Elements that a loop steps at once.
template <class Lane, KernelVariant kVariant>
inline constexpr size_t kAtOnce = kByPairs<kVariant> || kByTwos<kVariant> ? 2 * Lane::width : Lane::width;

constexpr KernelVariant without_undo(KernelVariant variant) {
  variant.undo = false;
  return variant;
}

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
/// master NaN. Then nothing is stored, and step_vectors() steps both vectors, with what the undo log
/// has of them.
template <class Lane, KernelVariant kVariant>
size_t step_twos(const AdamScalars& scalars, const AdamArrays& slice, const UndoPlace& undo) {
  using F = typename Lane::F;
  using W = typename Lane::W;
  constexpr size_t width = Lane::width;
  using Arrays = SliceArrays<kVariant>;
  constexpr bool kHalves = Arrays::kHalves;
  auto* const p_base = Arrays::p(slice);
  const auto* const g_base = Arrays::g(slice);
  auto* const m_base = Arrays::m(slice);
  auto* const v_base = Arrays::v(slice);
  uint16_t* const copy = Arrays::copy(slice);
  const size_t n = slice.n;
  const size_t prefetch_distance = slice.prefetch_distance;
  UndoLog* const log = undo.log;
  uint64_t* const mark = kVariant.undo ? &undo.run->mark : nullptr;
  const size_t first = undo.first;
  const uint64_t first_mark = kVariant.undo ? kUndoBegun | (undo.run->begin + first) : 0;
  const AdamScalars s = scalars;
  const W upper_mask = Lane::words(0xffff0000U, 0);
  const W lower_mask = Lane::words(0xffffU, 0);
  const W stride = Lane::words(static_cast<uint32_t>(width) * kDitherStride, 0);
  W dither = Lane::words(slice.dither, kDitherStride);

  for (size_t i = 0; i < n; i += 2 * width) {
    if (prefetch_distance != 0) {
      for (size_t at = i; at < i + 2 * width; at += width) {
        if (at % kLineFloats != 0) continue;
        prefetch_lines<true>(at, prefetch_distance, p_base, g_base, m_base, v_base);
        if constexpr (Arrays::kReadsCopy) prefetch_line<true>(copy, at, prefetch_distance);
      }
    }
    const F first_g = Lane::mul(Lane::template load_grad<kVariant.grad>(g_base, i), Lane::set(s.grad_scale));
    const F second_g =
        Lane::mul(Lane::template load_grad<kVariant.grad>(g_base, i + width), Lane::set(s.grad_scale));
    F first_p = Lane::load(p_base + i);
    F second_p = Lane::load(p_base + i + width);
    F first_m, second_m, first_v, second_v;
    if constexpr (kHalves) {
      const auto m = Lane::load_two(m_base + i);
      const auto v = Lane::load_two(v_base + i);
      first_m = Lane::floats(m.first);
      second_m = Lane::floats(m.second);
      first_v = Lane::floats(v.first);
      second_v = Lane::floats(v.second);
    } else {
      first_m = Lane::load(m_base + i);
      second_m = Lane::load(m_base + i + width);
      first_v = Lane::load(v_base + i);
      second_v = Lane::load(v_base + i + width);
    }
    if constexpr (kVariant.truth) {
      const auto written = Lane::load_two(copy + i);
      first_p = Lane::where_equal(Lane::and_words(rounded<Lane>(first_p), upper_mask), written.first, first_p,
                                  Lane::floats(written.first));
      second_p = Lane::where_equal(Lane::and_words(rounded<Lane>(second_p), upper_mask), written.second,
                                   second_p, Lane::floats(written.second));
    }
    if constexpr (kVariant.undo) {
      const size_t place = (first + i) & (2 * width);
      Lane::store(log->p + place, first_p);
      Lane::store(log->p + place + width, second_p);
      Lane::store(log->m + place, first_m);
      Lane::store(log->m + place + width, second_m);
      Lane::store(log->v + place, first_v);
      Lane::store(log->v + place + width, second_v);
    }

    step_vector<Lane, kVariant>(s, first_g, first_p, first_m, first_v);
    step_vector<Lane, kVariant>(s, second_g, second_p, second_m, second_v);

    if constexpr (kVariant.undo) {
      keep_order();  // the old values are stored, and the vectors before are complete
      __atomic_store_n(mark, first_mark + i, __ATOMIC_RELAXED);
      keep_order();
    }
    const W second_dither = Lane::add_words(dither, stride);
    if (Lane::has_nan(first_p, second_p)) [[unlikely]] {
      AdamArrays part = part_of<kVariant>(slice, i, i + 2 * width);
      part.prefetch_distance = 0;
      step_vectors<Lane, without_undo(kVariant)>(scalars, part, {nullptr, nullptr, 0});
    } else {
      Lane::store(p_base + i, first_p);
      Lane::store(p_base + i + width, second_p);
      if constexpr (kHalves) {
        Lane::store_two(m_base + i, Lane::add_words(Lane::bits(first_m), Lane::down(dither)),
                        Lane::add_words(Lane::bits(second_m), Lane::down(second_dither)));
        Lane::store_two(v_base + i, Lane::add_words(Lane::bits(first_v), Lane::and_words(dither, lower_mask)),
                        Lane::add_words(Lane::bits(second_v), Lane::and_words(second_dither, lower_mask)));
      } else {
        Lane::store(m_base + i, first_m);
        Lane::store(m_base + i + width, second_m);
        Lane::store(v_base + i, first_v);
        Lane::store(v_base + i + width, second_v);
      }
      if constexpr (kVariant.truth) {
        Lane::store_two(copy + i, rounded<Lane>(first_p), rounded<Lane>(second_p));
      } else if constexpr (kVariant.copy != ElementType::none) {
        Lane::stream_two(copy + i, rounded<Lane>(first_p), rounded<Lane>(second_p));
      }
    }
    dither = Lane::add_words(second_dither, stride);
  }
  return n;
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
template <class Lane, KernelVariant kVariant>
size_t step_pairs(const AdamScalars& scalars, const AdamArrays& slice) {
  using F = typename Lane::F;
  using W = typename Lane::W;
  using Arrays = SliceArrays<kVariant>;
  auto* const p_base = Arrays::p(slice);
  const auto* const g_base = Arrays::g(slice);
  auto* const m_base = Arrays::m(slice);
  auto* const v_base = Arrays::v(slice);
  uint16_t* const copy = Arrays::copy(slice);
  const size_t n = slice.n;
  const size_t prefetch_distance = slice.prefetch_distance;
  const AdamScalars s = scalars;
  const W lower_mask = Lane::words(0xffffU, 0);
  const W one = Lane::words(kDitherStride, 0);
  const W stride = Lane::words(static_cast<uint32_t>(2 * Lane::width) * kDitherStride, 0);
  W dither = Lane::words(slice.dither, 2 * kDitherStride);

  for (size_t i = 0; i < n; i += 2 * Lane::width) {
    if (prefetch_distance != 0) {
      prefetch_lines<true>(i, prefetch_distance, p_base, g_base, m_base, v_base);
      prefetch_line<true>(copy, i, prefetch_distance);
    }
    const W high = Lane::load_words(copy + i);
    const W low = Lane::load_words(p_base + i);
    const Pair<Lane> g = pair_of<Lane>(Lane::load_words(g_base + i));
    Pair<Lane> m = pair_of<Lane>(Lane::load_words(m_base + i));
    Pair<Lane> v = pair_of<Lane>(Lane::load_words(v_base + i));
    const Pair<Lane> upper = pair_of<Lane>(high);
    Pair<Lane> p = {joined<Lane>(Lane::bits(upper.even), Lane::down_signed(Lane::up(low))),
                    joined<Lane>(Lane::bits(upper.odd), Lane::down_signed(low))};
    const F even_g = Lane::nan_made_canonical(Lane::mul(g.even, Lane::set(s.grad_scale)));
    const F odd_g = Lane::nan_made_canonical(Lane::mul(g.odd, Lane::set(s.grad_scale)));

    step_vector<Lane, kVariant>(s, even_g, p.even, m.even, v.even);
    step_vector<Lane, kVariant>(s, odd_g, p.odd, m.odd, v.odd);

    const Halves<Lane> even(p.even);
    const Halves<Lane> odd(p.odd);
    const W odd_dither = Lane::add_words(dither, one);
    Lane::store_words(copy + i, upper_halves<Lane>(even.high, odd.high));
    Lane::store_words(p_base + i, Lane::or_words(Lane::and_words(even.low, lower_mask), Lane::up(odd.low)));
    Lane::store_words(m_base + i, upper_halves<Lane>(dithered<Lane>(m.even, Lane::down(dither)),
                                                     dithered<Lane>(m.odd, Lane::down(odd_dither))));
    Lane::store_words(v_base + i,
                      upper_halves<Lane>(dithered<Lane>(v.even, Lane::and_words(dither, lower_mask)),
                                         dithered<Lane>(v.odd, Lane::and_words(odd_dither, lower_mask))));
    dither = Lane::add_words(dither, stride);
  }
  return n;
}

}  // namespace
}  // namespace zf
