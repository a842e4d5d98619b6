// Tests that a 16-bit copy which is the truth wins over p, element by element, at any alignment.
#include <gtest/gtest.h>

#include "engine/kernel.hpp"
#include "kernel_fixture.hpp"

namespace zf {
namespace {

KernelVariant without_truth(KernelVariant variant) {
  variant.truth = false;
  return variant;
}

/// Takes p from the copy by its definition: where the copy is not p rounded.
void take_written(TestState& state, const KernelVariant& variant) {
  for (std::size_t i = 0; i < state.p.size(); ++i) {
    if (state.copy[i] == narrowed(state.p[i], variant.copy)) continue;
    const float written = widened(state.copy[i], variant.copy);
    state.p[i] = written == written ? written : std::bit_cast<float>(0xffc00000U);
  }
}

TEST(KernelTruth, CopiesThatNobodyWroteChangeNothing) {
  for (const KernelVariant& variant : truth_variants()) {
    for (const std::size_t n : {0U, 1U, 7U, 16U, 53U, 4099U}) {
      const TestState begin = consistent_state(n, variant, 3);
      for (const Isa isa : supported_isas()) {
        ASSERT_TRUE(stepped(begin, isa, variant) == stepped(begin, isa, without_truth(variant)))
            << name_of(isa) << ' ' << n << ' ' << text(variant);
      }
    }
  }
}

TEST(KernelTruth, EveryWriteToTheCopyCountsAndNoOtherElementChanges) {
  for (const KernelVariant& variant : truth_variants()) {
    for (const Isa isa : supported_isas()) {
      TestState state = consistent_state(4099, variant, 5);
      TestState expected = state;
      for (unsigned step = 1; step <= 3; ++step) {
        write_copy(state, variant, step);
        write_copy(expected, variant, step);
        take_written(expected, variant);
        state = stepped(state, isa, variant, step);
        expected = stepped(expected, Isa::scalar, without_truth(variant), step);
        ASSERT_TRUE(state == expected) << name_of(isa) << " step " << step << ' ' << text(variant);
      }
    }
  }
}

TEST(KernelTruth, LanesAgreeBitForBitAtEveryAlignment) {
  for (const KernelVariant& variant : truth_variants()) {
    for (std::size_t n = 0; n <= 72; ++n) {
      const std::size_t length = n <= 70 ? n : 100 * n + 3;  // and two long ones
      TestState begin = consistent_state(length, variant, static_cast<unsigned>(n));
      write_copy(begin, variant, static_cast<unsigned>(n));
      const TestState expected = stepped(begin, Isa::scalar, variant);
      for (const Isa isa : supported_isas()) {
        // All arrays at one offset, then each at its own. A sanitizer sees as much at any alignment.
        for (std::size_t k = 0; k<8; k += ZF_FEWER> 1 ? 3 : 1) {
          const std::size_t different = k / 4;
          std::array<std::size_t, 5> offsets = {};
          for (std::size_t i = 0; i < offsets.size(); ++i) offsets[i] = (k + i * different) % 4;
          const std::optional<TestState> state = stepped_at(begin, isa, variant, offsets);
          ASSERT_TRUE(state) << "something outside the arrays was written";
          ASSERT_TRUE(*state == expected)
              << name_of(isa) << ' ' << length << ' ' << k << ' ' << text(variant);
        }
      }
    }
  }
}

TEST(Kernel, ArraysBesideTheOutputsMayHaveAnyAlignment) {
  for (const KernelVariant& variant : all_variants()) {
    if (variant.stale || variant.copy != ElementType::none) continue;
    for (const std::size_t n : {1U, 15U, 16U, 53U, 4099U}) {
      const TestState begin = random_state(n, variant.grad, 5, true);
      for (const Isa isa : supported_isas()) {
        for (std::size_t k = 0; k < 4; ++k) {
          const std::optional<TestState> state =
              stepped_at(begin, isa, variant, {k, (k + 1) % 4, (k + 2) % 4, (k + 3) % 4, 0});
          ASSERT_TRUE(state && *state == stepped(begin, Isa::scalar, variant))
              << name_of(isa) << ' ' << n << ' ' << k << ' ' << text(variant);
        }
      }
    }
  }
}

TEST(KernelTruth, EveryPatternOfTheCopyIsTakenAsItIs) {
  // A step of no gradient, no moment and lr = 0 leaves p as it is, and so shows what was taken.
  AdamSettings settings;
  settings.lr = 0;
  const AdamScalars scalars = adam_scalars(settings, 1);
  for (const ElementType copy : {ElementType::bf16, ElementType::f16}) {
    KernelVariant variant = {ElementType::f32, copy, false, AdamMode::adamw, false};
    variant.truth = true;
    for (const float p : {1.0F, -0.0F, 1e-39F}) {
      TestState state;
      for (unsigned i = 0; i < 0x10000; ++i) state.copy.push_back(static_cast<std::uint16_t>(i));
      state.p.assign(state.copy.size(), p);
      state.g32 = state.m = state.v = AlignedArray<float>(state.p.size());
      TestState expected = state;
      take_written(expected, variant);
      for (const Isa isa : supported_isas()) {
        TestState after = state;
        adam_kernel(isa, variant)(scalars, after.arrays(variant, 0, after.p.size()));
        for (std::size_t i = 0; i < after.p.size(); ++i) {
          ASSERT_EQ(std::bit_cast<std::uint32_t>(after.p[i]), std::bit_cast<std::uint32_t>(expected.p[i]))
              << name_of(isa) << ' ' << i;
          ASSERT_EQ(after.copy[i], narrowed(expected.p[i], copy)) << name_of(isa) << ' ' << i;
        }
      }
    }
  }
}

TEST(KernelTruth, AskingForMemoryAheadChangesNothing) {
  for (const KernelVariant& variant : truth_variants()) {
    TestState with = consistent_state(1037, variant, 23);
    write_copy(with, variant, 29);
    const TestState without = stepped(with, Isa::scalar, variant);
    AdamArrays arrays = with.arrays(variant, 0, with.p.size());
    arrays.prefetch_distance = 256;
    adam_kernel(chosen_isa(), variant)(test_scalars(variant, 1), arrays);
    ASSERT_TRUE(with == without) << text(variant);
  }
}

TEST(KernelTruthDeathTest, NeverComesWithSnapshotUndoOrWithoutACopy) {
  const KernelVariant variant = {.copy = ElementType::bf16, .truth = true};
  KernelVariant wrong = variant;
  wrong.stale = true;
  EXPECT_DEATH(adam_kernel(chosen_isa(), wrong), "exists");
  wrong = variant;
  wrong.undo = true;
  EXPECT_DEATH(adam_kernel(chosen_isa(), wrong), "exists");
  wrong = variant;
  wrong.copy = ElementType::none;
  EXPECT_DEATH(adam_kernel(chosen_isa(), wrong), "exists");
}

}  // namespace
}  // namespace zf
