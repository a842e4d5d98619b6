// Tests that a slice with only a part of its vectors stored is restored and finished, whatever part that is.
#include "engine/undo.hpp"

#include <gtest/gtest.h>

#include "undo_fixture.hpp"

namespace zf {
namespace {

constexpr std::uint64_t kChunk = 41;
constexpr std::size_t kUndoElements = 2 * 16 + 16 + 5;
const KernelVariant kVariant = {ElementType::bf16, ElementType::bf16, true, AdamMode::adamw, true};

std::size_t width_of(Isa isa) {
  return isa == Isa::avx512 ? 16 : isa == Isa::avx2 ? 8 : isa == Isa::neon ? 4 : 1;
}

TestState stepped(TestState state, Isa isa) {
  adam_kernel(isa, kVariant)(test_scalars(kVariant, 3), state.arrays(kVariant, 0, state.p.size()));
  return state;
}

/// Returns the state after a kill in the middle of the vector at `at`. Three bits say which of its p, m and v
/// are new.
TestState torn(const TestState& begin, Isa isa, std::size_t at, unsigned is_new, UndoLog& log) {
  TestState state = begin;
  const std::size_t end = std::min(at + width_of(isa), kUndoElements);
  AdamArrays arrays = state.arrays(kVariant, 0, end);
  arrays.undo = &log;
  begin_run(log, kChunk, 0);
  undo_kernel(isa, kVariant)(test_scalars(kVariant, 3), arrays);
  log.runs[log.current].mark = kUndoBegun | at;
  for (std::size_t i = at; i < end; ++i) {
    if ((is_new & 1U) == 0) state.p[i] = begin.p[i];
    if ((is_new & 2U) == 0) state.m[i] = begin.m[i];
    if ((is_new & 4U) == 0) state.v[i] = begin.v[i];
  }
  std::fill(state.stale.begin(), state.stale.end(), -1.0F);  // outputs promise nothing
  return state;
}

TEST(Undo, StepsAreTheSameBitForBitWithIt) {
  for (const Isa isa : supported_isas()) {
    for (const KernelVariant& variant : all_variants()) {
      for (std::size_t n = 0; n <= 50; ++n) {
        TestState one = random_state(n, variant.grad, static_cast<unsigned>(n), true);
        TestState other = one;
        UndoLog log = {};
        begin_run(log, 1, 0);
        AdamArrays arrays = other.arrays(variant, 0, n);
        arrays.undo = &log;
        adam_kernel(isa, variant)(test_scalars(variant, 2), one.arrays(variant, 0, n));
        undo_kernel(isa, variant)(test_scalars(variant, 2), arrays);
        ASSERT_TRUE(one == other) << name_of(isa) << ' ' << n << ' ' << text(variant);
      }
    }
  }
}

TEST(Undo, FinishesATornSliceWithAnyInstructionSet) {
  const TestState begin = random_state(kUndoElements, kVariant.grad, 5, true);
  for (const Isa isa : supported_isas()) {
    const TestState expected = stepped(begin, isa);
    for (const Isa next : supported_isas()) {
      for (std::size_t at = 0; at < kUndoElements; at += width_of(isa)) {
        for (unsigned is_new = 0; is_new < 8; ++is_new) {
          UndoLog log = {};
          TestState state = torn(begin, isa, at, is_new, log);
          // Roll back twice, as after a second death during the repair.
          roll_back(log, kChunk, state.arrays(kVariant, 0, kUndoElements), kVariant.format);
          repair(log, kChunk, next, kVariant, test_scalars(kVariant, 3), state);
          ASSERT_TRUE(state == expected) << name_of(isa) << " then " << name_of(next) << " at " << at;
        }
      }
    }
  }
}

TEST(Undo, OutputsAloneHaveTheBitsOfTheStep) {
  for (const Isa isa : supported_isas()) {
    for (const KernelVariant& variant : all_variants()) {
      for (const std::size_t n : {0U, 1U, 7U, 16U, 53U}) {
        TestState state = random_state(n, variant.grad, 9, true);
        adam_kernel(isa, variant)(test_scalars(variant, 3), state.arrays(variant, 0, n));
        TestState again = state;
        std::fill(again.stale.begin(), again.stale.end(), variant.stale ? -1.0F : -77.0F);
        if (variant.copy != ElementType::none)
          std::fill(again.copy.begin(), again.copy.end(), std::uint16_t{1});
        output_kernel(isa, variant)(again.arrays(variant, 0, n));
        ASSERT_TRUE(state == again) << name_of(isa) << ' ' << n << ' ' << text(variant);
      }
    }
  }
}

TEST(Undo, KnowsWhatWasBegunBeforeAndAfter) {
  UndoLog log = {};
  TestState state = random_state(kUndoElements, kVariant.grad, 5, false);
  AdamArrays arrays = state.arrays(kVariant, 0, kUndoElements);
  EXPECT_EQ(roll_back(log, 0, arrays, kVariant.format), 0U);
  arrays.undo = &log;
  begin_run(log, kChunk, 0);
  undo_kernel(chosen_isa(), kVariant)(test_scalars(kVariant, 3), arrays);
  EXPECT_EQ(roll_back(log, kChunk, arrays, kVariant.format), kUndoElements);
  EXPECT_EQ(roll_back(log, kChunk + 1, arrays, kVariant.format), 0U) << "not begun";
}

/// A log of later work must not be taken for an earlier one, also in the release build.
TEST(UndoDeathTest, ALogOfLaterWorkStopsTheProcess) {
  TestState state = random_state(kUndoElements, kVariant.grad, 5, true);
  UndoLog log = {};
  begin_run(log, kChunk + 1, 0);
  EXPECT_DEATH(roll_back(log, kChunk, state.arrays(kVariant, 0, kUndoElements), kVariant.format),
               "run.chunk_number <= chunk_number");
}

}  // namespace
}  // namespace zf
