// Tests the kernels of the state formats against their definition: the fp32 kernel on the widened state, and
// then the rounding of half.hpp by the dither of dither.hpp.
#include <gtest/gtest.h>

#include "engine/slices.hpp"
#include "engine/tensor_step.hpp"
#include "kernel_fixture.hpp"

namespace zf {
namespace {

std::vector<KernelVariant> narrow_variants() {
  std::vector<KernelVariant> variants;
  for (const StateFormat format : kNarrowFormats) {
    for (const KernelVariant& variant : variants_of(format)) variants.push_back(variant);
  }
  for (const KernelVariant& variant : variants_of(StateFormat::bf16, true)) variants.push_back(variant);
  return variants;
}

TestState state_of(std::size_t n, const KernelVariant& variant, unsigned seed) {
  TestState state =
      variant.truth ? consistent_state(n, variant, seed) : random_state(n, variant.grad, seed, true);
  to_format(state, variant.format);
  if (variant.truth) write_copy(state, variant, seed);
  write_halves(state, variant.format, seed);
  return state;
}

/// Steps a state as docs/arithmetic.md defines its format.
TestState by_definition(TestState state, KernelVariant variant, std::uint64_t step = 1) {
  const StateFormat format = variant.format;
  from_format(state, format);
  const AlignedArray<std::uint16_t> high = state.copy;
  TestState fp32 = state;
  variant.format = StateFormat::fp32;
  fp32 = stepped(fp32, Isa::scalar, variant, step);
  state.copy = fp32.copy;
  if (has_split_masters(format)) {
    for (std::size_t i = 0; i < state.p.size(); ++i) {
      const SplitFloat halves = split_of_f32(fp32.p[i]);
      state.copy[i] = halves.high;
      state.low[i] = halves.low;
    }
  } else {
    state.p = fp32.p;
  }
  if (has_bf16_moments(format)) {
    for (std::size_t i = 0; i < state.p.size(); ++i) {
      const std::uint32_t word = kTestDither + static_cast<std::uint32_t>(i) * kDitherStride;
      state.m16[i] = bf16_dithered(fp32.m[i], word >> 16);
      state.v16[i] = bf16_dithered(fp32.v[i], word & 0xffffU);
    }
  } else {
    state.m = fp32.m;
    state.v = fp32.v;
  }
  return state;
}

/// True if the arrays of the format are equal. The others are leftovers.
bool same_state(const TestState& a, const TestState& b, StateFormat format) {
  const bool moments = has_bf16_moments(format) ? same_bits(a.m16, b.m16) && same_bits(a.v16, b.v16)
                                                : same_bits(a.m, b.m) && same_bits(a.v, b.v);
  const bool masters = has_split_masters(format) ? same_bits(a.low, b.low) : same_bits(a.p, b.p);
  return moments && masters && same_bits(a.copy, b.copy);
}

TEST(KernelFormat, EveryLaneDoesWhatTheDefinitionSays) {
  for (const KernelVariant& variant : narrow_variants()) {
    for (const std::size_t n : {0U, 1U, 7U, 16U, 53U, 4099U}) {
      const TestState begin = state_of(n, variant, 3);
      const TestState expected = by_definition(begin, variant);
      for (const Isa isa : supported_isas()) {
        ASSERT_TRUE(same_state(stepped(begin, isa, variant), expected, variant.format))
            << name_of(isa) << ' ' << n << ' ' << text(variant);
      }
    }
  }
}

TEST(KernelFormat, LanesAgreeBitForBitAtEveryLengthAndAlignment) {
  for (const KernelVariant& variant : narrow_variants()) {
    if (variant.copy != ElementType::none && !variant.truth) continue;  // an output is aligned
    for (std::size_t n = 0; n <= 70; ++n) {
      const TestState begin = state_of(n, variant, static_cast<unsigned>(n));
      const TestState expected = stepped(begin, Isa::scalar, variant);
      for (const Isa isa : supported_isas()) {
        // All arrays at one offset, then each at its own. A sanitizer sees as much at any alignment.
        for (std::size_t k = 0; k<8; k += ZF_FEWER> 1 ? 3 : 1) {
          std::array<std::size_t, 5> offsets = {};
          for (std::size_t i = 0; i < offsets.size(); ++i) offsets[i] = (k + i * (k / 4)) % 4;
          const std::optional<TestState> state = stepped_at(begin, isa, variant, offsets);
          ASSERT_TRUE(state) << "something outside the arrays was written: " << text(variant);
          ASSERT_TRUE(*state == expected) << name_of(isa) << ' ' << n << ' ' << k << ' ' << text(variant);
        }
      }
    }
  }
}

TEST(KernelFormat, CutsThreadsAndUndoChangeNothing) {
  for (const StateFormat format : kNarrowFormats) {
    KernelVariant variant = {ElementType::bf16, ElementType::none, false, AdamMode::adamw, true};
    variant.format = format;
    const std::size_t n = 300'003 / ZF_FEWER;
    const TestState begin = state_of(n, variant, 11);
    const TestState expected = stepped(begin, Isa::scalar, variant);
    for (const Isa isa : supported_isas()) {
      for (const std::size_t threads : std::initializer_list<std::size_t>{1, 2, 3, 7, 64, 400}) {
        for (const bool undo : {false, true}) {
          UndoLog log = {};
          KernelVariant logged = variant;
          logged.undo = undo;
          TestState state = begin;
          for (const Slice& slice : slices_of(n, threads)) {
            AdamArrays arrays = state.arrays(variant, slice.begin, slice.size());
            arrays.undo = &log;
            adam_kernel(isa, logged)(test_scalars(variant, 1), arrays);
          }
          ASSERT_TRUE(state == expected) << name_of(isa) << ' ' << threads << ' ' << text(logged);
        }
      }
    }
  }
}

/// Returns a step of elements [begin, begin + n) as a tensor of its own.
TensorStep tensor_of(TestState& state, const KernelVariant& variant, std::size_t begin, std::size_t n) {
  const AdamArrays arrays = state.arrays(variant, begin, n);
  TensorStep step;
  step.p = arrays.p;
  step.g = arrays.g;
  step.m = arrays.m;
  step.v = arrays.v;
  step.copy = arrays.copy;
  step.elements = n;
  step.first_element = begin;
  step.grad_type = variant.grad;
  step.format = variant.format;
  step.dither = kTestDither;
  step.scalars = test_scalars(variant, 1);
  step.kernel = adam_kernel(chosen_isa(), variant);
  return step;
}

TEST(KernelFormat, AnyGroupingIntoTensorsAndPartsChangesNothing) {
  for (const StateFormat format : kNarrowFormats) {
    KernelVariant variant = {ElementType::f32, ElementType::none, false, AdamMode::adamw, true};
    variant.format = format;
    const std::size_t n = 40'000;
    const TestState begin = state_of(n, variant, 17);
    const TestState expected = stepped(begin, Isa::scalar, variant);
    for (const std::size_t tensor_elements : {std::size_t{40'000}, std::size_t{9'999}, std::size_t{1'001}}) {
      for (const std::size_t members : {std::size_t{1}, std::size_t{3}}) {
        TestState state = begin;
        std::vector<TensorStep> tensors;
        for (std::size_t at = 0; at < n; at += tensor_elements) {
          tensors.push_back(tensor_of(state, variant, at, std::min(tensor_elements, n - at)));
        }
        Parts parts;
        cut(tensors, members, parts, 4 * kSliceGrain);
        // In any order, as the threads of a team do.
        for (auto part = parts.parts.rbegin(); part != parts.parts.rend(); ++part) {
          step_part(tensors[part->tensor], part->slice, 0);
        }
        ASSERT_TRUE(state == expected) << tensor_elements << ' ' << members << ' ' << text(variant);
      }
    }
  }
}

TEST(KernelFormat, ElementsBeyondFourBillionGoOn) {
  constexpr std::uint64_t kFar = (std::uint64_t{1} << 32) - 5;
  KernelVariant variant;
  variant.format = StateFormat::bf16;
  const std::size_t n = 40;
  const TestState begin = state_of(n, variant, 17);
  TestState whole = begin;
  TensorStep one = tensor_of(whole, variant, 0, n);
  one.first_element = kFar;
  step_part(one, {0, n}, 0);
  TestState halves = begin;
  for (const Slice& slice : {Slice{0, 5}, Slice{5, n}}) {
    TensorStep half = tensor_of(halves, variant, 0, n);
    half.first_element = kFar;
    step_part(half, slice, 0);
  }
  EXPECT_TRUE(whole == halves);
}

TEST(KernelFormat, AskingForMemoryAheadChangesNothing) {
  for (const KernelVariant& variant : narrow_variants()) {
    TestState with = state_of(1037, variant, 23);
    const TestState without = stepped(with, chosen_isa(), variant);
    AdamArrays arrays = with.arrays(variant, 0, with.p.size());
    arrays.prefetch_distance = 256;
    adam_kernel(chosen_isa(), variant)(test_scalars(variant, 1), arrays);
    ASSERT_TRUE(with == without) << text(variant);
  }
}

TEST(KernelFormat, AnyPairOfHalvesIsTakenAsTheParameterOrItsMaster) {
  // A step of no gradient, no moment and lr = 0 leaves the master, and so shows what was taken.
  AdamSettings settings;
  settings.lr = 0;
  const AdamScalars scalars = adam_scalars(settings, 1);
  KernelVariant variant;
  variant.format = StateFormat::split;
  for (const unsigned low : {0U, 1U, 0x7fffU, 0x8000U, 0x8001U, 0xffffU}) {
    TestState state;
    for (unsigned i = 0; i < 0x10000; ++i) {
      state.copy.push_back(static_cast<std::uint16_t>(i));
      state.low.push_back(static_cast<std::uint16_t>(low));
    }
    state.p = state.m = state.v = state.g32 = AlignedArray<float>(state.copy.size());
    for (const Isa isa : supported_isas()) {
      TestState after = state;
      adam_kernel(isa, variant)(scalars, after.arrays(variant, 0, after.p.size()));
      for (std::size_t i = 0; i < after.p.size(); ++i) {
        const SplitFloat before = {state.copy[i], state.low[i]};
        const SplitFloat now = {after.copy[i], after.low[i]};
        ASSERT_EQ(now, split_of_f32(f32_of_split(before))) << name_of(isa) << ' ' << i << ' ' << low;
        if (f32_of_bf16(before.high) == f32_of_bf16(before.high)) {
          ASSERT_EQ(now.high, before.high) << "the parameter is the truth: " << name_of(isa) << ' ' << i;
        }
      }
    }
  }
}

TEST(KernelFormatDeathTest, NeverComesWithSnapshotOrFp16Copy) {
  KernelVariant wrong;
  wrong.format = StateFormat::bf16;
  wrong.stale = true;
  EXPECT_DEATH(adam_kernel(chosen_isa(), wrong), "exists");
  wrong.stale = false;
  wrong.copy = ElementType::f16;
  EXPECT_DEATH(adam_kernel(chosen_isa(), wrong), "exists");
  wrong.format = StateFormat::split;
  wrong.copy = ElementType::bf16;
  EXPECT_DEATH(adam_kernel(chosen_isa(), wrong), "exists");
}

}  // namespace
}  // namespace zf
