// Tests that the kernel's result depends only on its input.
#include "engine/kernel.hpp"

#include <gtest/gtest.h>

#include "engine/slices.hpp"
#include "kernel_fixture.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace zf {
namespace {

constexpr std::size_t kOddLength = 1'000'003 / ZF_FEWER;

/// Steps over the slices of `threads` threads, one after the other.
TestState stepped_by_threads(TestState state, Isa isa, const KernelVariant& variant, std::size_t threads,
                             std::uint64_t steps = 3) {
  for (std::uint64_t step = 1; step <= steps; ++step) {
    for (const Slice& slice : slices_of(state.p.size(), threads)) {
      adam_kernel(isa, variant)(test_scalars(variant, step),
                                state.arrays(variant, slice.begin, slice.size()));
    }
  }
  return state;
}

/// Returns the instruction sets with lanes that are compared with the scalar one.
std::vector<Isa> vector_isas() {
  std::vector<Isa> isas = supported_isas();
  isas.erase(isas.begin());
  return isas;
}

TEST(Kernel, LanesAgreeBitForBitOnEveryShortLength) {
  for (const KernelVariant& variant : all_variants()) {
    for (std::size_t n = 0; n <= 70; ++n) {
      const TestState begin = random_state(n, variant.grad, static_cast<unsigned>(n) + 1, true);
      const TestState expected = stepped_by_threads(begin, Isa::scalar, variant, 1);
      for (const Isa isa : vector_isas()) {
        ASSERT_TRUE(stepped_by_threads(begin, isa, variant, 1) == expected)
            << name_of(isa) << ' ' << n << ' ' << text(variant);
      }
    }
  }
}

TEST(Kernel, LanesAgreeBitForBitOnOddLengths) {
  for (const ElementType grad : {ElementType::f32, ElementType::bf16, ElementType::f16}) {
    const TestState begin = random_state(kOddLength, grad, 7, true);
    for (const KernelVariant& variant : all_variants()) {
      if (variant.grad != grad) continue;
      const TestState expected = stepped_by_threads(begin, Isa::scalar, variant, 1, 1);
      for (const Isa isa : vector_isas()) {
        ASSERT_TRUE(stepped_by_threads(begin, isa, variant, 1, 1) == expected)
            << name_of(isa) << ' ' << text(variant);
      }
    }
  }
}

TEST(Kernel, SlicingChangesNothing) {
  const KernelVariant variant = {ElementType::bf16, ElementType::bf16, true, AdamMode::adamw, true};
  const TestState begin = random_state(kOddLength, variant.grad, 11, true);
  const TestState expected = stepped_by_threads(begin, Isa::scalar, variant, 1);
  for (const Isa isa : supported_isas()) {
    for (const std::size_t threads : std::initializer_list<std::size_t>{1, 2, 3, 7, 64, 977, 2000}) {
      ASSERT_TRUE(stepped_by_threads(begin, isa, variant, threads) == expected)
          << name_of(isa) << ' ' << threads;
    }
  }
}

TEST(Kernel, NothingOutsideTheSliceIsWritten) {
  constexpr std::size_t kBegin = 1024;
  for (const KernelVariant& variant : all_variants()) {
    for (const std::size_t n : std::initializer_list<std::size_t>{1, 15, 17, 33}) {
      for (const Isa isa : supported_isas()) {
        TestState state = random_state(2 * kBegin, variant.grad, 3, true);
        TestState untouched = state;
        adam_kernel(isa, variant)(test_scalars(variant, 1), state.arrays(variant, kBegin, n));
        const auto restore = [&](auto& ours, const auto& theirs) {
          std::copy_n(theirs.begin() + kBegin, n, ours.begin() + kBegin);
        };
        restore(state.p, untouched.p);
        restore(state.m, untouched.m);
        restore(state.v, untouched.v);
        restore(state.stale, untouched.stale);
        restore(state.copy, untouched.copy);
        ASSERT_TRUE(state == untouched) << name_of(isa) << ' ' << n << ' ' << text(variant);
      }
    }
  }
}

TEST(Kernel, OutputsAreTheNewParameters) {
  for (const ElementType copy : {ElementType::bf16, ElementType::f16}) {
    const KernelVariant variant = {ElementType::f32, copy, true, AdamMode::adamw, true};
    for (const Isa isa : supported_isas()) {
      const TestState state = stepped_by_threads(random_state(4099, variant.grad, 5, true), isa, variant, 1);
      EXPECT_TRUE(same_bits(state.stale, state.p));
      for (std::size_t i = 0; i < state.p.size(); ++i) {
        ASSERT_EQ(state.copy[i], copy == ElementType::bf16 ? bf16_of_f32(state.p[i]) : f16_of_f32(state.p[i]))
            << i;
      }
    }
  }
}

TEST(Kernel, KnowsOneKindOfNan) {
  // A NaN gradient is replaced by the machine's own NaN, so that no operation has two kinds of NaN.
  const KernelVariant variant = {ElementType::f32, ElementType::bf16, false, AdamMode::adam, true};
  for (const Isa isa : supported_isas()) {
    const TestState state = stepped_by_threads(random_state(4099, variant.grad, 13, true), isa, variant, 1);
    for (const auto* array : {&state.p, &state.m, &state.v}) {
      for (const float x : *array) {
        if (x != x) {
          ASSERT_EQ(std::bit_cast<std::uint32_t>(x), 0xffc00000U) << name_of(isa);
        }
      }
    }
  }
}

#if defined(__x86_64__)
TEST(Kernel, CallersFlushOfDenormalsAndRoundingModeDoNotMatter) {
  const KernelVariant variant = {ElementType::f16, ElementType::f16, true, AdamMode::adamw, true};
  const TestState begin = random_state(4099, variant.grad, 17, true);
  const TestState expected = stepped_by_threads(begin, Isa::scalar, variant, 1);
  const unsigned before = _mm_getcsr();
  const unsigned flush_and_round_down = 0x1f80U | 0x8040U | 0x2000U;
  for (const Isa isa : supported_isas()) {
    AdamScalars scalars[3];
    for (std::uint64_t step = 1; step <= 3; ++step) scalars[step - 1] = test_scalars(variant, step);
    TestState state = begin;
    _mm_setcsr(flush_and_round_down);
    for (const AdamScalars& scalar : scalars) {
      adam_kernel(isa, variant)(scalar, state.arrays(variant, 0, state.p.size()));
    }
    EXPECT_EQ(_mm_getcsr() & 0xffc0U, flush_and_round_down & 0xffc0U) << "the caller's mode is given back";
    _mm_setcsr(before);
    EXPECT_TRUE(state == expected) << name_of(isa);
  }
}
#endif

TEST(Kernel, AskingForMemoryAheadChangesNothing) {
  for (const Isa isa : supported_isas()) {
    for (const ElementType grad : {ElementType::f32, ElementType::bf16}) {
      const KernelVariant variant = {grad, ElementType::bf16, true, AdamMode::adamw, true};
      TestState without = random_state(1037, grad, 23, false);
      TestState with = without;
      AdamArrays slice = without.arrays(variant, 0, without.p.size());
      slice.prefetch_distance = 0;
      adam_kernel(isa, variant)(test_scalars(variant, 1), slice);
      slice = with.arrays(variant, 0, with.p.size());
      slice.prefetch_distance = 256;
      adam_kernel(isa, variant)(test_scalars(variant, 1), slice);
      EXPECT_TRUE(with == without) << name_of(isa);
    }
  }
}

TEST(Kernel, RooflineReadsAndWritesWhatItSays) {
  for (const Isa isa : supported_isas()) {
    for (const bool with_stale : {false, true}) {
      TestState state = random_state(1037, ElementType::f32, 19, false);
      const TestState before = state;
      KernelVariant outputs;
      outputs.stale = with_stale;
      roofline_pass(isa, state.arrays(outputs, 0, state.p.size()));
      for (std::size_t i = 0; i < state.p.size(); ++i) {
        ASSERT_EQ(state.p[i], before.p[i] + before.g32[i]);
        ASSERT_EQ(state.m[i], before.m[i] + before.g32[i]);
        ASSERT_EQ(state.v[i], before.v[i] + before.g32[i]);
        ASSERT_EQ(state.stale[i], with_stale ? state.p[i] : before.stale[i]);
      }
    }
  }
}

}  // namespace
}  // namespace zf
