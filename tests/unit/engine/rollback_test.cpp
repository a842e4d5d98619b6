// Tests that a step with a log can be taken back, bit for bit, and where it stops.
#include "engine/rollback.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "undo_fixture.hpp"

namespace zf {
namespace {

struct Log {
  explicit Log(std::size_t n) : bytes(rollback_bytes(n) + 64, 0xa5) {}
  RollbackHeader& header() { return *reinterpret_cast<RollbackHeader*>(bytes.data()); }
  AlignedArray<unsigned char> bytes;
};

AdamArrays slice_of(TestState& state, const KernelVariant& variant, UndoLog& undo, std::size_t at,
                    std::size_t n) {
  AdamArrays arrays = state.arrays(variant, at, n);
  arrays.undo = &undo;
  return arrays;
}

std::size_t speculate(Isa isa, const KernelVariant& variant, const AdamScalars& scalars, TestState& state,
                      Log& log) {
  UndoLog undo = {};
  begin_run(undo, 1, 0);
  const std::size_t n = state.p.size();
  return speculate_kernel(isa, variant)(scalars, slice_of(state, variant, undo, 0, n),
                                        rollback_place(log.header(), n, 0));
}

void take_back(Isa isa, const KernelVariant& variant, const AdamScalars& scalars, TestState& state, Log& log,
               std::size_t begin, std::size_t end) {
  UndoLog undo = {};
  begin_run(undo, 1, begin);
  take_back_kernel(isa, variant)(scalars, slice_of(state, variant, undo, begin, end - begin),
                                 rollback_place(log.header(), state.p.size(), begin));
}

std::vector<KernelVariant> rollback_variants() {
  std::vector<KernelVariant> some;
  for (const ElementType grad : {ElementType::f32, ElementType::bf16, ElementType::f16}) {
    for (const bool decay : {false, true})
      some.push_back({.grad = grad, .mode = AdamMode::adamw, .decay = decay});
  }
  return some;
}

/// Returns a state after so many steps, with the gradients of another one, times `spike`.
TestState trained(const KernelVariant& variant, std::size_t n, int steps, float spike) {
  TestState state = random_state(n, variant.grad, 3, false);
  std::fill(state.m.begin(), state.m.end(), 0.0F);
  std::fill(state.v.begin(), state.v.end(), 0.0F);
  for (int step = 1; step <= steps; ++step) {
    const TestState next = random_state(n, variant.grad, static_cast<unsigned>(step) + 100, false);
    state.g32 = next.g32;
    state.g16 = next.g16;
    if (step == steps) break;
    adam_kernel(Isa::scalar, variant)(test_scalars(variant, static_cast<std::uint64_t>(step)),
                                      state.arrays(variant, 0, n));
  }
  for (std::size_t i = 0; i < n; ++i) {
    state.g32[i] *= spike;
    if (variant.grad == ElementType::f32) continue;
    state.g16[i] = narrowed(widened(state.g16[i], variant.grad) * spike, variant.grad);
  }
  return state;
}

TEST(Rollback, RestoresEveryBitOnEveryInstructionSet) {
  for (const KernelVariant& variant : rollback_variants()) {
    for (const std::size_t n : {1U, 15U, 16U, 17U, 53U, 1024U, 3001U}) {
      for (const int step : {1, 2, 9}) {
        for (const float spike : {1.0F, 10.0F, 100.0F}) {
          const TestState begin = trained(variant, n, step, spike);
          const AdamScalars scalars = test_scalars(variant, static_cast<std::uint64_t>(step));
          Log reference(n);
          TestState expected = begin;
          const std::size_t done = speculate(Isa::scalar, variant, scalars, expected, reference);
          TestState plain = begin;
          adam_kernel(Isa::scalar, variant)(scalars, plain.arrays(variant, 0, done));
          ASSERT_TRUE(plain == expected) << "the step is not that without a log";
          for (const Isa isa : supported_isas()) {
            Log log(n);
            TestState state = begin;
            ASSERT_EQ(speculate(isa, variant, scalars, state, log), done);
            ASSERT_TRUE(state == expected) << name_of(isa) << ' ' << n;
            ASSERT_TRUE(log.bytes == reference.bytes) << name_of(isa) << ' ' << n;
            take_back(isa, variant, scalars, state, log, 0, done);
            ASSERT_TRUE(state == begin) << name_of(isa) << ' ' << n << " step " << step << " x " << spike;
          }
        }
      }
    }
  }
}

TEST(Rollback, AnOrdinaryStepFitsItsLogAndALargeOneStops) {
  for (const KernelVariant& variant : rollback_variants()) {
    for (const auto& [step, spike] : {std::pair(1, 1.0F), std::pair(9, 1.0F)}) {
      TestState state = trained(variant, 3001, step, spike);
      Log log(3001);
      EXPECT_EQ(speculate(Isa::scalar, variant, test_scalars(variant, static_cast<std::uint64_t>(step)),
                          state, log),
                3001U)
          << text(variant) << " step " << step;
    }
    TestState state = trained(variant, 3001, 9, 1e4F);
    Log log(3001);
    const std::size_t done = speculate(Isa::scalar, variant, test_scalars(variant, 9), state, log);
    EXPECT_LT(done, 3001U);
    EXPECT_EQ(done % kRollbackBlock, 0U);
    for (std::size_t i = rollback_bytes(3001); i < log.bytes.size(); ++i) ASSERT_EQ(log.bytes[i], 0xa5);
  }
}

TEST(Rollback, RestoresHostileValuesAndStopsBeforeANaN) {
  constexpr float kHuge = std::numeric_limits<float>::infinity();
  for (const Isa isa : supported_isas()) {
    for (const KernelVariant& variant : rollback_variants()) {
      for (const float odd : {0.0F, -0.0F, 1e-45F, -1e-39F, 3e38F, kHuge, -kHuge, NAN}) {
        for (int array = 0; array < 4; ++array) {
          TestState begin = trained(variant, 200, 9, 1.0F);
          for (const std::size_t i : {37U, 38U, 47U}) {
            if (array == 0) begin.p[i] = odd;
            if (array == 1) begin.m[i] = odd;
            if (array == 2) begin.v[i] = std::fabs(odd);
            if (array == 3) begin.g32[i] = odd;
            if (array == 3 && variant.grad != ElementType::f32) begin.g16[i] = narrowed(odd, variant.grad);
          }
          TestState state = begin;
          Log log(200);
          const AdamScalars scalars = test_scalars(variant, 9);
          const std::size_t done = speculate(isa, variant, scalars, state, log);
          EXPECT_EQ(done, std::isnan(odd) ? 32U : done) << array;
          EXPECT_GE(done, 32U);
          EXPECT_TRUE(done == 200U || std::fabs(odd) > 1.0F || std::isnan(odd)) << array << ' ' << odd;
          take_back(isa, variant, scalars, state, log, 0, done);
          ASSERT_TRUE(state == begin) << name_of(isa) << " array " << array << ": " << odd;
        }
      }
    }
  }
}

/// As after a death: the blocks from any one on, with any instruction set.
TEST(Rollback, GoesOnAtAnyBlock) {
  const KernelVariant variant = rollback_variants()[3];
  const AdamScalars scalars = test_scalars(variant, 2);
  const TestState begin = trained(variant, 100, 2, 1.0F);
  for (const Isa isa : supported_isas()) {
    for (std::size_t at = 0; at <= 96; at += kRollbackBlock) {
      TestState state = begin;
      Log log(100);
      const std::size_t done = speculate(isa, variant, scalars, state, log);
      take_back(Isa::scalar, variant, scalars, state, log, 0, std::min(at, done));
      if (at < done) take_back(isa, variant, scalars, state, log, at, done);
      ASSERT_TRUE(state == begin) << name_of(isa) << " at " << at;
    }
  }
}

TEST(Rollback, TakesNoMoreThanItsBytes) {
  EXPECT_EQ(rollback_bytes(0), 0U);
  EXPECT_EQ(rollback_bytes(1), kRollbackGrainBytes);
  EXPECT_EQ(rollback_bytes(1 << 20) * 4, 9U << 20);
}

TEST(Rollback, L2DecayAndNarrowStateAreNotSpeculated) {
  EXPECT_FALSE(can_be_taken_back({.mode = AdamMode::adam, .decay = true}));
  EXPECT_TRUE(can_be_taken_back({.mode = AdamMode::adam, .decay = false}));
  EXPECT_TRUE(can_be_taken_back({.mode = AdamMode::adamw, .decay = true}));
  EXPECT_FALSE(can_be_taken_back({.format = StateFormat::bf16}));
}

}  // namespace
}  // namespace zf
