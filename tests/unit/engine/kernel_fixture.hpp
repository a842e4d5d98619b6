// For the kernel's tests: a state to step, every variant, and hostile gradients.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <iterator>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "aligned_array.hpp"
#include "base/format.hpp"
#include "engine/dither.hpp"
#include "engine/half.hpp"
#include "engine/instruction_sets.hpp"
#include "engine/kernel.hpp"

namespace zf {

inline constexpr std::uint32_t kTestDither = dither_of(7, 11);  ///< of element 0

struct TestState {
  AlignedArray<float> p, m, v, stale;
  AlignedArray<float> g32;
  AlignedArray<std::uint16_t> g16;  ///< the same gradients in the variant's 16-bit type
  AlignedArray<std::uint16_t> copy;
  AlignedArray<std::uint16_t> low, m16, v16;  ///< in the place of p, m and v where the format says so

  /// Returns the slice [begin, begin + n) as the kernel takes it.
  AdamArrays arrays(const KernelVariant& variant, std::size_t begin, std::size_t n) {
    AdamArrays slice;
    const bool is_split = has_split_masters(variant.format);
    slice.p = is_split ? static_cast<void*>(low.data() + begin) : p.data() + begin;
    slice.m = has_bf16_moments(variant.format) ? static_cast<void*>(m16.data() + begin) : m.data() + begin;
    slice.v = has_bf16_moments(variant.format) ? static_cast<void*>(v16.data() + begin) : v.data() + begin;
    slice.g = variant.grad == ElementType::f32 ? static_cast<const void*>(g32.data() + begin)
                                               : static_cast<const void*>(g16.data() + begin);
    if (variant.stale) slice.stale = stale.data() + begin;
    if (variant.copy != ElementType::none || is_split) slice.copy = copy.data() + begin;
    slice.n = n;
    slice.dither = dither_at(kTestDither, begin);
    return slice;
  }

  bool operator==(const TestState& other) const {
    return same_bits(p, other.p) && same_bits(m, other.m) && same_bits(v, other.v) &&
           same_bits(stale, other.stale) && same_bits(copy, other.copy) && same_bits(low, other.low) &&
           same_bits(m16, other.m16) && same_bits(v16, other.v16);
  }
};

/// Returns weights and moments as in training, and gradients of type `grad` of all sizes. If `hostile`, some
/// values are denormal, and some gradients are infinities and NaNs with different payloads. Outputs are
/// filled with a mark.
inline TestState random_state(std::size_t n, ElementType grad, unsigned seed, bool hostile) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  TestState state;
  const auto draw = [&](float size) { return size * normal(random); };
  for (std::size_t i = 0; i < n; ++i) {
    const bool tiny = hostile && random() % 16 == 0;
    state.p.push_back(draw(tiny ? 1e-39F : 1.0F));
    state.m.push_back(draw(tiny ? 1e-39F : 1e-3F));
    const float root = draw(tiny ? 1e-20F : 1e-3F);
    state.v.push_back(root * root);
    auto g = draw(1e-3F);
    auto half = static_cast<std::uint16_t>(grad == ElementType::bf16 ? bf16_of_f32(g) : f16_of_f32(g));
    if (hostile && random() % 8 == 0) {
      g = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
      half = static_cast<std::uint16_t>(random());
      if (random() % 4 == 0) {  // infinity, quiet and signalling NaN
        const std::uint32_t top[] = {0x7f800000U, 0xff800000U, 0x7fc12345U, 0xff812345U};
        g = std::bit_cast<float>(top[random() % 4]);
        half = static_cast<std::uint16_t>((grad == ElementType::bf16 ? 0x7f80U : 0x7c00U) | (random() % 4));
      }
    }
    state.g32.push_back(g);
    state.g16.push_back(half);
  }
  state.stale.assign(n, -77.0F);
  state.copy.assign(n, std::uint16_t{0x7777});
  return state;
}

inline std::vector<KernelVariant> all_variants() {
  std::vector<KernelVariant> variants;
  for (const ElementType grad : {ElementType::f32, ElementType::bf16, ElementType::f16}) {
    for (const ElementType copy : {ElementType::none, ElementType::bf16, ElementType::f16}) {
      for (const bool stale : {false, true}) {
        variants.push_back({grad, copy, stale, AdamMode::adamw, false});
        variants.push_back({grad, copy, stale, AdamMode::adamw, true});
        variants.push_back({grad, copy, stale, AdamMode::adam, true});
        variants.push_back({grad, copy, stale, AdamMode::adam, false});
      }
    }
  }
  return variants;
}

/// Returns the variants that have their truth in the copy.
inline std::vector<KernelVariant> truth_variants() {
  std::vector<KernelVariant> variants;
  for (KernelVariant variant : all_variants()) {
    if (variant.copy == ElementType::none || variant.stale) continue;
    variant.truth = true;
    variants.push_back(variant);
  }
  return variants;
}

/// Returns the variants of a format: those of truth_variants() if `truth` is set.
inline std::vector<KernelVariant> variants_of(StateFormat format, bool truth = false) {
  std::vector<KernelVariant> variants;
  for (KernelVariant variant : truth ? truth_variants() : all_variants()) {
    if (variant.stale || variant.copy == ElementType::f16) continue;
    if (has_split_masters(format) && variant.copy != ElementType::none) continue;
    variant.format = format;
    variants.push_back(variant);
  }
  return variants;
}

inline constexpr StateFormat kNarrowFormats[] = {StateFormat::bf16, StateFormat::split,
                                                 StateFormat::bf16_split};

/// Fills the arrays of a format from p, m and v, and rounds moments to nearest.
inline void to_format(TestState& state, StateFormat format) {
  if (has_bf16_moments(format)) {
    state.m16.clear();
    state.v16.clear();
    for (const float m : state.m) state.m16.push_back(bf16_of_f32(m));
    for (const float v : state.v) state.v16.push_back(bf16_of_f32(v));
  }
  if (has_split_masters(format)) {
    state.low.clear();
    state.copy.clear();
    for (const float p : state.p) {
      state.copy.push_back(split_of_f32(p).high);
      state.low.push_back(split_of_f32(p).low);
    }
  }
}

/// Fills p, m and v from the arrays of a format, exactly.
inline void from_format(TestState& state, StateFormat format) {
  for (std::size_t i = 0; i < state.p.size(); ++i) {
    if (has_bf16_moments(format)) {
      state.m[i] = f32_of_bf16(state.m16[i]);
      state.v[i] = f32_of_bf16(state.v16[i]);
    }
    if (has_split_masters(format)) state.p[i] = f32_of_split({state.copy[i], state.low[i]});
  }
}

inline std::uint16_t narrowed(float value, ElementType type) {
  return type == ElementType::bf16 ? bf16_of_f32(value) : f16_of_f32(value);
}

inline float widened(std::uint16_t value, ElementType type) {
  return type == ElementType::bf16 ? f32_of_bf16(value) : f32_of_f16(value);
}

/// Returns a state of a truth variant. Some parameters are infinite, NaN, denormal or -0. The copy is p
/// rounded.
inline TestState consistent_state(std::size_t n, const KernelVariant& variant, unsigned seed) {
  TestState state = random_state(n, variant.grad, seed, true);
  std::mt19937 random(seed + 1);
  const std::uint32_t kSpecial[] = {0x7f800000U, 0xff800000U, 0xffc00000U, 0x80000000U, 0U, 1U, 0x807fffffU};
  for (std::size_t i = 0; i < n; ++i) {
    if (random() % 8 == 0) state.p[i] = std::bit_cast<float>(kSpecial[random() % std::size(kSpecial)]);
    state.copy[i] = narrowed(state.p[i], variant.copy);
  }
  return state;
}

/// Writes some elements of the copy: one bit, a special value (NaNs of several kinds among them), or
/// anything.
inline void write_copy(TestState& state, const KernelVariant& variant, unsigned seed) {
  std::mt19937 random(seed);
  const unsigned infinity = variant.copy == ElementType::bf16 ? 0x7f80U : 0x7c00U;
  const unsigned kSpecial[] = {infinity, infinity | 0x8000U, infinity | 1U, 0xffffU, 0x8000U, 0U, 1U,
                               0x8001U};
  for (std::uint16_t& element : state.copy) {
    const unsigned ways[] = {element ^ (1U << (random() % 16)), kSpecial[random() % std::size(kSpecial)],
                             static_cast<unsigned>(random())};
    if (random() % 4 == 0) element = static_cast<std::uint16_t>(ways[random() % std::size(ways)]);
  }
}

/// Writes anything into some elements of the arrays of a format, as a program that writes parameters does,
/// and as a wrong file may do.
inline void write_halves(TestState& state, StateFormat format, unsigned seed) {
  std::mt19937 random(seed);
  const unsigned kSpecial[] = {0x0000U, 0x8000U, 0x7f80U, 0xff80U, 0x7f81U, 0xffffU, 0x0001U, 0x7f7fU};
  const auto write = [&](AlignedArray<std::uint16_t>& array) {
    for (std::uint16_t& element : array) {
      if (random() % 4 == 0) element = static_cast<std::uint16_t>(kSpecial[random() % std::size(kSpecial)]);
      if (random() % 4 == 0) element = static_cast<std::uint16_t>(random());
    }
  };
  if (!has_split_masters(format)) return;
  write(state.copy);
  write(state.low);
}

inline std::string text(const KernelVariant& variant) {
  return format_text("{} grad {} copy {} stale {} mode {} decay {} truth {}", name_of(variant.format),
                     static_cast<int>(variant.grad), static_cast<int>(variant.copy), variant.stale,
                     static_cast<int>(variant.mode), variant.decay, variant.truth);
}

inline std::vector<Isa> supported_isas() {
  std::vector<Isa> isas;
  for (const InstructionSet& row : instruction_sets()) {
    if (row.is_supported()) isas.push_back(row.isa);
  }
  return isas;
}

/// Returns the scalars of one step of a variant, with every feature of the scalars turned on.
inline AdamScalars test_scalars(const KernelVariant& variant, std::uint64_t step, float grad_scale = 0.3F) {
  AdamSettings settings;
  settings.weight_decay = variant.decay ? 0.1 : 0.0;
  settings.mode = variant.mode;
  settings.bias_correction = step % 2 == 1;
  AdamScalars scalars = adam_scalars(settings, step);
  scalars.grad_scale = grad_scale;
  return scalars;
}

/// Returns the state after one step.
inline TestState stepped(TestState state, Isa isa, const KernelVariant& variant, std::uint64_t step = 1) {
  adam_kernel(isa, variant)(test_scalars(variant, step), state.arrays(variant, 0, state.p.size()));
  return state;
}

/// A copy of an array that begins `offset` elements after a 64-byte boundary, between marks.
template <class T>
struct ShiftedArray {
  ShiftedArray(const AlignedArray<T>& array, std::size_t offset)
      : cells(array.size() + 2 * kMargin, T{77}), first(cells.data() + kMargin + offset), n(array.size()) {
    std::copy(array.begin(), array.end(), first);
  }
  AlignedArray<T> array() const { return {first, first + n}; }
  bool marks_are_whole() const {
    const auto is_mark = [](T cell) { return cell == T{77}; };
    return std::all_of(cells.data(), static_cast<const T*>(first), is_mark) &&
           std::all_of(static_cast<const T*>(first) + n, cells.data() + cells.size(), is_mark);
  }

  static constexpr std::size_t kMargin = 64;
  AlignedArray<T> cells;
  T* first;
  std::size_t n;
};

/// Steps a state once, with p, g, m, v and the copy at these offsets from 64-byte boundaries, in elements.
/// Returns nothing if anything outside the arrays was written.
inline std::optional<TestState> stepped_at(const TestState& state, Isa isa, const KernelVariant& variant,
                                           const std::array<std::size_t, 5>& offsets,
                                           std::uint64_t step = 1) {
  ShiftedArray p(state.p, offsets[0]);
  const ShiftedArray g32(state.g32, offsets[1]);
  const ShiftedArray g16(state.g16, offsets[1]);
  ShiftedArray m(state.m, offsets[2]);
  ShiftedArray v(state.v, offsets[3]);
  ShiftedArray copy(state.copy, offsets[4]);
  ShiftedArray low(state.low, offsets[0]);
  ShiftedArray m16(state.m16, offsets[2]);
  ShiftedArray v16(state.v16, offsets[3]);
  const bool is_split = has_split_masters(variant.format);
  AdamArrays arrays;
  arrays.p = is_split ? static_cast<void*>(low.first) : p.first;
  arrays.g = variant.grad == ElementType::f32 ? static_cast<const void*>(g32.first) : g16.first;
  arrays.m = has_bf16_moments(variant.format) ? static_cast<void*>(m16.first) : m.first;
  arrays.v = has_bf16_moments(variant.format) ? static_cast<void*>(v16.first) : v.first;
  arrays.copy = variant.copy == ElementType::none && !is_split ? nullptr : copy.first;
  arrays.n = state.p.size();
  arrays.dither = kTestDither;
  adam_kernel(isa, variant)(test_scalars(variant, step), arrays);
  if (!p.marks_are_whole() || !m.marks_are_whole() || !v.marks_are_whole() || !copy.marks_are_whole() ||
      !low.marks_are_whole() || !m16.marks_are_whole() || !v16.marks_are_whole()) {
    return std::nullopt;
  }
  TestState after = state;
  after.p = p.array();
  after.m = m.array();
  after.v = v.array();
  after.copy = copy.array();
  after.low = low.array();
  after.m16 = m16.array();
  after.v16 = v16.array();
  return after;
}

}  // namespace zf
