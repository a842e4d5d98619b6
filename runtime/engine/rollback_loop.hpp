// The step that can be taken back, and the taking back, for any Lane and fp32 state. Included as
// adam_loop.hpp is, under its rules.
//
// Beside the members that adam_loop.hpp and vector_loop.hpp list, a Lane has: sub; sub_words, min_words
// (of unsigned words); any_nan(a, b, c); whole(codes), a bit for each word that is kRollbackWhole;
// store_codes(at, p, m, v) and load_codes, which pack the codes of a block from and to arrays of W.
#pragma once

#include "engine/rollback.hpp"
#include "engine/slice_arrays.hpp"

namespace zf {
namespace {

/// Computes the old values of a vector from the new ones, up to rounding. `g` is that of the step. It
/// multiplies and then subtracts: m and v of 0 then come out exact, as before the first step. With a fused
/// operation they would all be kept whole.
template <class Lane, KernelVariant kVariant, class F = typename Lane::F>
inline __attribute__((always_inline)) void invert_vector(F one_minus_beta1, F one_minus_beta2, F eps,
                                                         F inv_sqrt_bias2, F minus_step_size, F inverse_beta1,
                                                         F inverse_beta2, F inverse_keep, F g, F& p, F& m,
                                                         F& v) {
  const F update = Lane::div(m, Lane::fma(Lane::sqrt(v), inv_sqrt_bias2, eps));
  p = Lane::fma(update, minus_step_size, p);
  if constexpr (kVariant.decay) p = Lane::mul(p, inverse_keep);
  m = Lane::mul(Lane::sub(m, Lane::mul(g, one_minus_beta1)), inverse_beta1);
  v = Lane::mul(Lane::sub(v, Lane::mul(Lane::mul(g, g), one_minus_beta2)), inverse_beta2);
}

/// Returns a code for each old value: how far `again`, the value computed again, is from it in units of the
/// last place. Numbers of different sign are far apart, also 0 and -0.
template <class Lane>
typename Lane::W codes_of(typename Lane::F old, typename Lane::F again) {
  const auto difference = Lane::sub_words(Lane::bits(old), Lane::bits(again));
  return Lane::min_words(Lane::add_words(difference, Lane::set_words(kRollbackZero)),
                         Lane::set_words(kRollbackWhole));
}

/// Returns the old values from `again` and their codes, except values that the log keeps whole.
template <class Lane>
typename Lane::F old_of(typename Lane::F again, typename Lane::W codes) {
  return Lane::floats(
      Lane::add_words(Lane::bits(again), Lane::sub_words(codes, Lane::set_words(kRollbackZero))));
}

/// Appends the values that a block keeps whole.
inline void keep_whole(uint32_t which, const float* values, float*& whole) {
  for (; which != 0; which &= which - 1) *whole++ = values[__builtin_ctz(which)];
}

/// Takes the values that a block keeps whole. Not inlined, since few blocks have any.
template <class Lane>
__attribute__((noinline)) void take_whole(uint32_t which, typename Lane::F* vectors, const float*& whole) {
  alignas(64) float values[kRollbackBlock];
  for (size_t k = 0; k < kRollbackBlock; k += Lane::width) Lane::store(values + k, vectors[k / Lane::width]);
  for (; which != 0; which &= which - 1) values[__builtin_ctz(which)] = *whole++;
  for (size_t k = 0; k < kRollbackBlock; k += Lane::width) vectors[k / Lane::width] = Lane::load(values + k);
}

/// Steps whole blocks of a slice, as step_vectors() does, and writes their log. Returns how many
/// elements it stepped.
template <class Lane, KernelVariant kVariant>
size_t speculate_blocks(const AdamScalars& scalars, const AdamArrays& slice, const UndoPlace& undo,
                        RollbackPlace& place) {
  using F = typename Lane::F;
  using W = typename Lane::W;
  constexpr size_t kVectors = kRollbackBlock / Lane::width;
  using Arrays = SliceArrays<kVariant>;
  auto* const p_base = Arrays::p(slice);
  const auto* const g_base = Arrays::g(slice);
  auto* const m_base = Arrays::m(slice);
  auto* const v_base = Arrays::v(slice);
  const size_t n = slice.n;
  const size_t prefetch_distance = slice.prefetch_distance;
  UndoLog* const log = undo.log;
  uint64_t* const mark = &undo.run->mark;
  const size_t first = undo.first;
  const uint64_t first_mark = kUndoBegun | (undo.run->begin + first);
  uint8_t* codes = place.codes;
  float* whole = place.whole;
  const float* const end = place.end;
  const AdamScalars s = scalars;
  const F one_minus_beta1 = Lane::set(s.one_minus_beta1);
  const F one_minus_beta2 = Lane::set(s.one_minus_beta2);
  const F eps = Lane::set(s.eps);
  const F inv_sqrt_bias2 = Lane::set(s.inv_sqrt_bias2);
  const F grad_scale = Lane::set(s.grad_scale);
  const F minus_step_size = Lane::set(-scalars.step_size);
  const F inverse_beta1 = Lane::set(1.0F / scalars.beta1);
  const F inverse_beta2 = Lane::set(1.0F / scalars.beta2);
  const F inverse_keep = Lane::set(1.0F / (1.0F + scalars.decay));

  size_t i = 0;
  for (; i < n; i += kRollbackBlock) {
    if (prefetch_distance != 0) prefetch_lines<false>(i, prefetch_distance, p_base, g_base, m_base, v_base);
    const size_t old = (first + i) & kRollbackBlock;
    F p[kVectors];
    F m[kVectors];
    F v[kVectors];
    W p_codes[kVectors];
    W m_codes[kVectors];
    W v_codes[kVectors];
    uint32_t whole_p = 0;
    uint32_t whole_m = 0;
    uint32_t whole_v = 0;
    bool has_nan = false;
    for (size_t k = 0; k < kVectors; ++k) {
      const size_t at = i + k * Lane::width;
      F g = Lane::mul(Lane::template load_grad<kVariant.grad>(g_base, at), grad_scale);
      const F old_p = Lane::load(p_base + at);
      const F old_m = Lane::load(m_base + at);
      const F old_v = Lane::load(v_base + at);
      g = Lane::nan_made_canonical(g);
      Lane::store(log->p + old + k * Lane::width, old_p);
      Lane::store(log->m + old + k * Lane::width, old_m);
      Lane::store(log->v + old + k * Lane::width, old_v);
      F new_p = old_p;
      F new_m = old_m;
      F new_v = old_v;
      step_vector<Lane, kVariant>(s, g, new_p, new_m, new_v);
      p[k] = new_p;
      m[k] = new_m;
      v[k] = new_v;
      invert_vector<Lane, kVariant>(one_minus_beta1, one_minus_beta2, eps, inv_sqrt_bias2, minus_step_size,
                                    inverse_beta1, inverse_beta2, inverse_keep, g, new_p, new_m, new_v);
      has_nan |= Lane::any_nan(new_p, new_m, new_v);
      p_codes[k] = codes_of<Lane>(old_p, new_p);
      m_codes[k] = codes_of<Lane>(old_m, new_m);
      v_codes[k] = codes_of<Lane>(old_v, new_v);
      whole_p |= Lane::whole(p_codes[k]) << (k * Lane::width);
      whole_m |= Lane::whole(m_codes[k]) << (k * Lane::width);
      whole_v |= Lane::whole(v_codes[k]) << (k * Lane::width);
    }
    // The payload of a NaN may depend on the order of the operands, so NaNs cannot be restored bit for bit.
    if (has_nan) break;
    if ((whole_p | whole_m | whole_v) != 0) {
      const int count =
          __builtin_popcount(whole_p) + __builtin_popcount(whole_m) + __builtin_popcount(whole_v);
      if (count > end - whole) break;
      keep_order();  // the old values are in the undo log
      keep_whole(whole_p, log->p + old, whole);
      keep_whole(whole_m, log->m + old, whole);
      keep_whole(whole_v, log->v + old, whole);
    }
    Lane::store_codes(codes, p_codes, m_codes, v_codes);
    codes += kRollbackCodeBytes;
    keep_order();  // the old values and the codes are stored, and the block before is complete
    __atomic_store_n(mark, first_mark + i, __ATOMIC_RELAXED);
    keep_order();
    for (size_t k = 0; k < kVectors; ++k) {
      Lane::store(p_base + i + k * Lane::width, p[k]);
      Lane::store(m_base + i + k * Lane::width, m[k]);
      Lane::store(v_base + i + k * Lane::width, v[k]);
    }
  }
  place.codes = codes;
  place.whole = whole;
  return i;
}

/// Takes whole blocks of a slice back.
template <class Lane, KernelVariant kVariant>
size_t take_blocks_back(const AdamScalars& scalars, const AdamArrays& slice, const UndoPlace& undo,
                        RollbackPlace& place) {
  using F = typename Lane::F;
  using W = typename Lane::W;
  constexpr size_t kVectors = kRollbackBlock / Lane::width;
  using Arrays = SliceArrays<kVariant>;
  auto* const p_base = Arrays::p(slice);
  const auto* const g_base = Arrays::g(slice);
  auto* const m_base = Arrays::m(slice);
  auto* const v_base = Arrays::v(slice);
  const size_t n = slice.n;
  const size_t prefetch_distance = slice.prefetch_distance;
  UndoLog* const log = undo.log;
  uint64_t* const mark = &undo.run->mark;
  const size_t first = undo.first;
  const uint64_t first_mark = kUndoBegun | (undo.run->begin + first);
  const uint8_t* codes = place.codes;
  const float* whole = place.whole;
  const F one_minus_beta1 = Lane::set(scalars.one_minus_beta1);
  const F one_minus_beta2 = Lane::set(scalars.one_minus_beta2);
  const F eps = Lane::set(scalars.eps);
  const F inv_sqrt_bias2 = Lane::set(scalars.inv_sqrt_bias2);
  const F grad_scale = Lane::set(scalars.grad_scale);
  const F minus_step_size = Lane::set(-scalars.step_size);
  const F inverse_beta1 = Lane::set(1.0F / scalars.beta1);
  const F inverse_beta2 = Lane::set(1.0F / scalars.beta2);
  const F inverse_keep = Lane::set(1.0F / (1.0F + scalars.decay));

  for (size_t i = 0; i < n; i += kRollbackBlock) {
    if (prefetch_distance != 0) prefetch_lines<false>(i, prefetch_distance, p_base, g_base, m_base, v_base);
    const size_t old = (first + i) & kRollbackBlock;
    F p[kVectors];
    F m[kVectors];
    F v[kVectors];
    W p_codes[kVectors];
    W m_codes[kVectors];
    W v_codes[kVectors];
    uint32_t whole_p = 0;
    uint32_t whole_m = 0;
    uint32_t whole_v = 0;
    Lane::load_codes(codes, p_codes, m_codes, v_codes);
    codes += kRollbackCodeBytes;
    for (size_t k = 0; k < kVectors; ++k) {
      const size_t at = i + k * Lane::width;
      F g = Lane::mul(Lane::template load_grad<kVariant.grad>(g_base, at), grad_scale);
      F again_p = Lane::load(p_base + at);
      F again_m = Lane::load(m_base + at);
      F again_v = Lane::load(v_base + at);
      g = Lane::nan_made_canonical(g);
      Lane::store(log->p + old + k * Lane::width, again_p);
      Lane::store(log->m + old + k * Lane::width, again_m);
      Lane::store(log->v + old + k * Lane::width, again_v);
      invert_vector<Lane, kVariant>(one_minus_beta1, one_minus_beta2, eps, inv_sqrt_bias2, minus_step_size,
                                    inverse_beta1, inverse_beta2, inverse_keep, g, again_p, again_m, again_v);
      p[k] = old_of<Lane>(again_p, p_codes[k]);
      m[k] = old_of<Lane>(again_m, m_codes[k]);
      v[k] = old_of<Lane>(again_v, v_codes[k]);
      whole_p |= Lane::whole(p_codes[k]) << (k * Lane::width);
      whole_m |= Lane::whole(m_codes[k]) << (k * Lane::width);
      whole_v |= Lane::whole(v_codes[k]) << (k * Lane::width);
    }
    if ((whole_p | whole_m | whole_v) != 0) {
      take_whole<Lane>(whole_p, p, whole);
      take_whole<Lane>(whole_m, m, whole);
      take_whole<Lane>(whole_v, v, whole);
    }
    keep_order();
    __atomic_store_n(mark, first_mark + i, __ATOMIC_RELAXED);
    keep_order();
    for (size_t k = 0; k < kVectors; ++k) {
      Lane::store(p_base + i + k * Lane::width, p[k]);
      Lane::store(m_base + i + k * Lane::width, m[k]);
      Lane::store(v_base + i + k * Lane::width, v[k]);
    }
  }
  place.codes += kRollbackCodeBytes * (n / kRollbackBlock);
  place.whole += whole - place.whole;
  return n;
}

template <class Lane, KernelVariant kVariant>
size_t speculate(const AdamScalars& scalars, const AdamArrays& slice, RollbackPlace place) {
  return over_slice<kVariant, kRollbackBlock>(slice, [&](const AdamArrays& part, const UndoPlace& undo) {
    return speculate_blocks<Lane, kVariant>(scalars, part, undo, place);
  });
}

template <class Lane, KernelVariant kVariant>
void take_back(const AdamScalars& scalars, const AdamArrays& slice, RollbackPlace place) {
  over_slice<kVariant, kRollbackBlock>(slice, [&](const AdamArrays& part, const UndoPlace& undo) {
    return take_blocks_back<Lane, kVariant>(scalars, part, undo, place);
  });
}

constexpr KernelVariant speculated(ElementType grad, bool decay) {
  return {.grad = grad, .decay = decay, .undo = true};
}

template <class Lane, bool kDecay>
SpeculateKernel speculate_by_type(ElementType type) {
  return by_type<SpeculateKernel>(type, speculate<Lane, speculated(ElementType::bf16, kDecay)>,
                                  speculate<Lane, speculated(ElementType::f16, kDecay)>,
                                  speculate<Lane, speculated(ElementType::f32, kDecay)>);
}

template <class Lane>
SpeculateKernel speculate_of(const KernelVariant& variant) {
  return variant.decay ? speculate_by_type<Lane, true>(variant.grad)
                       : speculate_by_type<Lane, false>(variant.grad);
}

template <class Lane, bool kDecay>
TakeBackKernel take_back_by_type(ElementType type) {
  return by_type<TakeBackKernel>(type, take_back<Lane, speculated(ElementType::bf16, kDecay)>,
                                 take_back<Lane, speculated(ElementType::f16, kDecay)>,
                                 take_back<Lane, speculated(ElementType::f32, kDecay)>);
}

template <class Lane>
TakeBackKernel take_back_of(const KernelVariant& variant) {
  return variant.decay ? take_back_by_type<Lane, true>(variant.grad)
                       : take_back_by_type<Lane, false>(variant.grad);
}

/// The codes of a block, packed one by one, for lanes without a way of their own. `width` is the lane's.
template <size_t kWidth, class W, class Store>
void store_codes_singly(uint8_t* at, const W* p, const W* m, const W* v, Store store) {
  uint32_t words[3][kRollbackBlock];
  for (size_t k = 0; k < kRollbackBlock; k += kWidth) {
    store(words[0] + k, p[k / kWidth]);
    store(words[1] + k, m[k / kWidth]);
    store(words[2] + k, v[k / kWidth]);
  }
  for (size_t i = 0; i < kRollbackBlock; ++i) at[i] = static_cast<uint8_t>(words[0][i] | words[1][i] << 4);
  for (size_t i = 0; i < kRollbackBlock; i += 2)
    at[kRollbackBlock + i / 2] = static_cast<uint8_t>(words[2][i] | words[2][i + 1] << 4);
}

template <size_t kWidth, class W, class Load>
void load_codes_singly(const uint8_t* at, W* p, W* m, W* v, Load load) {
  uint32_t words[3][kRollbackBlock];
  for (size_t i = 0; i < kRollbackBlock; ++i) {
    words[0][i] = at[i] & 15U;
    words[1][i] = at[i] >> 4U;
    words[2][i] = at[kRollbackBlock + i / 2] >> (i % 2 * 4) & 15U;
  }
  for (size_t k = 0; k < kRollbackBlock; k += kWidth) {
    p[k / kWidth] = load(words[0] + k);
    m[k / kWidth] = load(words[1] + k);
    v[k / kWidth] = load(words[2] + k);
  }
}

}  // namespace
}  // namespace zf
