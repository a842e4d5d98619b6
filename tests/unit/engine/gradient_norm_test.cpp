#include "engine/gradient_norm.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "kernel_fixture.hpp"

namespace zf {
namespace {

GradientNorm norm_in_slices(Isa isa, ElementType type, TestState& state, std::size_t threads) {
  std::vector<double> sums(norm_blocks(state.g32.size()));
  for (const Slice& slice : slices_of(state.g32.size(), threads)) {
    if (slice.size() == 0) continue;
    const AdamArrays arrays = state.arrays({.grad = type}, slice.begin, slice.size());
    norm_kernel(isa, type)(arrays.g, arrays.n, sums.data() + slice.begin / kNormBlock);
  }
  return gradient_norm(sums);
}

TEST(GradientNorm, IsTheSameOnEveryIsaAndSlicing) {
  for (const ElementType type : {ElementType::f32, ElementType::bf16, ElementType::f16}) {
    for (const std::size_t n :
         std::initializer_list<std::size_t>{0, 1, 7, 15, 16, 17, 1023, 1024, 1025, 100'003}) {
      TestState state = random_state(n, type, 47, false);
      const GradientNorm expected = norm_in_slices(Isa::scalar, type, state, 1);
      EXPECT_TRUE(expected.finite);
      for (const Isa isa : supported_isas()) {
        for (const std::size_t threads : std::initializer_list<std::size_t>{1, 2, 5, 64}) {
          EXPECT_EQ(norm_in_slices(isa, type, state, threads).sum_of_squares, expected.sum_of_squares)
              << name_of(isa) << ' ' << n << ' ' << threads;
        }
      }
    }
  }
}

TEST(GradientNorm, IsTheSumOfSquares) {
  TestState state = random_state(100'003, ElementType::f32, 53, false);
  long double sum = 0;
  for (const float g : state.g32) sum += static_cast<long double>(g) * g;
  const auto expected = static_cast<double>(sum);
  EXPECT_NEAR(norm_in_slices(chosen_isa(), ElementType::f32, state, 3).sum_of_squares, expected,
              expected * 1e-12);
}

TEST(GradientNorm, OneBadGradientAnywhereIsSeen) {
  for (const Isa isa : supported_isas()) {
    for (const std::size_t at : std::initializer_list<std::size_t>{0, 8, 1023, 1024, 5000, 10'002}) {
      for (const std::uint32_t bad : {0x7f800000U, 0xff800000U, 0x7fc00000U, 0x7f800001U}) {
        TestState state = random_state(10'003, ElementType::f32, 59, false);
        state.g32[at] = std::bit_cast<float>(bad);
        EXPECT_FALSE(norm_in_slices(isa, ElementType::f32, state, 2).finite) << name_of(isa) << ' ' << at;
      }
    }
  }
}

TEST(GradientNorm, LargestGradientsDoNotOverflow) {
  TestState state = random_state(4096, ElementType::f32, 61, false);
  std::fill(state.g32.begin(), state.g32.end(), std::numeric_limits<float>::max());
  EXPECT_TRUE(norm_in_slices(chosen_isa(), ElementType::f32, state, 1).finite);
}

}  // namespace
}  // namespace zf
