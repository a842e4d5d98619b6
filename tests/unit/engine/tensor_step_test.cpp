// Tests that every element of a list of tensors is stepped exactly once, by members with equal shares.
#include "engine/tensor_step.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "engine/undo.hpp"
#include "kernel_fixture.hpp"

namespace zf {
namespace {

constexpr std::size_t kMembers[] = {1, 2, 3, 7, 16, 100, 1000};

std::vector<TensorStep> tensors_of(const std::vector<std::size_t>& sizes) {
  std::vector<TensorStep> tensors(sizes.size());
  for (std::size_t i = 0; i < sizes.size(); ++i) tensors[i].elements = sizes[i];
  return tensors;
}

/// Returns lists such as jobs have, and some that no job has.
std::vector<std::vector<std::size_t>> lists() {
  std::vector<std::vector<std::size_t>> lists = {
      {},
      {0},
      {0, 0, 0},
      {1},
      {1023},
      {1024},
      {1025},
      {0, 5, 0, 0, 2000, 0},
      {(std::size_t{3} << 30) + 7},
      {4096, 4096, 4096, 4096},
      std::vector<std::size_t>(2000, 1000),
      std::vector<std::size_t>(400, 65536),
  };
  // Many small tensors and one large one: equal numbers of tensors would not be equal shares.
  lists.push_back(std::vector<std::size_t>(500, 1));
  lists.back().push_back(std::size_t{500} * 1024);
  std::mt19937 random(3);
  for (int i = 0; i < 100; ++i) {
    auto& list = lists.emplace_back();
    for (std::size_t n = random() % 40; n != 0; --n) list.push_back(random() % (1U << (random() % 20)));
  }
  return lists;
}

/// Checks all that cut() promises.
void expect_a_cut(const std::vector<std::size_t>& sizes, std::size_t members, std::size_t part_elements,
                  const Parts& cut) {
  ASSERT_EQ(cut.members(), members);
  std::size_t tensor = 0;
  std::size_t at = 0;
  std::size_t all = 0;
  for (const std::size_t size : sizes) all += size;
  const auto equal = static_cast<double>(all) / static_cast<double>(members);
  std::size_t parts = 0;
  for (std::size_t member = 0; member < members; ++member) {
    std::size_t share = 0;
    for (const Part& part : cut.of_member(member)) {
      while (at == sizes[tensor]) {  // all of that one is covered
        ++tensor;
        at = 0;
        ASSERT_LT(tensor, sizes.size());
      }
      ASSERT_EQ(part.tensor, tensor);
      ASSERT_EQ(part.slice.begin, at) << "each element once, in order";
      ASSERT_GT(part.slice.size(), 0U);
      ASSERT_LE(part.slice.end, sizes[tensor]);
      ASSERT_LE(part.slice.size(), part_elements);
      ASSERT_TRUE(part.slice.end % kSliceGrain == 0 || part.slice.end == sizes[tensor]);
      at = part.slice.end;
      share += part.slice.size();
      ++parts;
    }
    ASSERT_LE(std::abs(static_cast<double>(share) - equal), kSliceGrain)
        << "member " << member << " of " << members << ", " << all << " elements";
  }
  ASSERT_EQ(parts, cut.parts.size());
  if (!sizes.empty()) {
    ASSERT_EQ(at, sizes[tensor]) << "the last tensor that has parts is covered to its end";
  }
  for (std::size_t i = tensor + 1; i < sizes.size(); ++i) ASSERT_EQ(sizes[i], 0U) << "tensor " << i;
}

TEST(Cut, CoversEveryElementOnceInEqualShares) {
  Parts parts;
  for (const std::vector<std::size_t>& sizes : lists()) {
    for (const std::size_t members : kMembers) {
      for (const std::size_t part_elements : {kSliceGrain, 3 * kSliceGrain, kPartElements}) {
        if (part_elements != kPartElements && sizes.size() == 1 && sizes[0] > (1U << 30)) continue;
        cut(tensors_of(sizes), members, parts, part_elements);
        ASSERT_NO_FATAL_FAILURE(expect_a_cut(sizes, members, part_elements, parts));
      }
    }
  }
}

TEST(Cut, OneTensorsSharesDifferByAGrainAndItsLastPiece) {
  Parts parts;
  for (const std::size_t elements : {1U, 1030U, 5000U, 1'000'003U}) {
    for (const std::size_t members : kMembers) {
      cut(tensors_of({elements}), members, parts);
      std::size_t least = elements;
      std::size_t most = 0;
      for (std::size_t member = 0; member < members; ++member) {
        std::size_t share = 0;
        for (const Part& part : parts.of_member(member)) share += part.slice.size();
        least = std::min(least, share);
        most = std::max(most, share);
      }
      EXPECT_LT(most - least, kSliceGrain + kSliceGrain / 2) << elements << " over " << members;
    }
  }
}

TEST(Cut, MakesThePartsThatItSays) {
  Parts parts;
  // Equal shares are 2,050 elements. The ends of the first two tensors are equally near: the first one
  // counts.
  cut(tensors_of({2000, 100, 0, 2000}), 2, parts);
  EXPECT_EQ(parts.parts, (std::vector<Part>{{0, {0, 2000}}, {1, {0, 100}}, {3, {0, 2000}}}));
  EXPECT_EQ(parts.first_of_member, (std::vector<std::size_t>{0, 1, 3}));

  cut(tensors_of({kPartElements + 5000}), 1, parts);
  EXPECT_EQ(parts.parts,
            (std::vector<Part>{{0, {0, kPartElements}}, {0, {kPartElements, kPartElements + 5000}}}));

  cut({}, 3, parts);
  EXPECT_TRUE(parts.parts.empty());
  EXPECT_EQ(parts.first_of_member, (std::vector<std::size_t>{0, 0, 0, 0}));
}

TEST(Cut, AllocatesNothingOnceItHasGrown) {
  Parts parts;
  const std::vector<TensorStep> tensors = tensors_of(std::vector<std::size_t>(300, 100'000));
  cut(tensors, 7, parts);
  const Part* const at = parts.parts.data();
  const std::size_t* const members = parts.first_of_member.data();
  for (const std::size_t fewer : {7U, 2U, 7U}) cut(tensors, fewer, parts);
  EXPECT_EQ(parts.parts.data(), at);
  EXPECT_EQ(parts.first_of_member.data(), members);
}

TensorStep step_of(TestState& state, const KernelVariant& variant) {
  const AdamArrays arrays = state.arrays(variant, 0, state.p.size());
  TensorStep step;
  step.p = arrays.p;
  step.g = arrays.g;
  step.m = arrays.m;
  step.v = arrays.v;
  step.stale = arrays.stale;
  step.copy = arrays.copy;
  step.elements = arrays.n;
  step.grad_type = variant.grad;
  step.format = variant.format;
  step.scalars = test_scalars(variant, 1);
  step.kernel = adam_kernel(chosen_isa(), variant);
  return step;
}

TEST(TensorStep, PartsGiveTheBitsOfTheWhole) {
  for (const KernelVariant& variant : all_variants()) {
    TestState whole = random_state(10'003, variant.grad, 5, true);
    TestState cut_up = whole;
    adam_kernel(chosen_isa(), variant)(test_scalars(variant, 1), whole.arrays(variant, 0, whole.p.size()));

    Parts parts;
    const TensorStep steps[] = {step_of(cut_up, variant)};
    cut(steps, 3, parts, kSliceGrain);
    ASSERT_GE(parts.parts.size(), 10U);
    for (const Part& part : parts.parts) step_part(steps[part.tensor], part.slice, 256);
    ASSERT_TRUE(cut_up == whole) << text(variant);
  }
}

TEST(TensorStep, OfNothingDoesNothing) {
  TensorStep step;  // no arrays, and no kernel
  step_part(step, {}, 0);
  step_part(step, {4096, 4096}, 256);
}

TEST(TensorStep, KeepsAnUndoLogThatFinishesAKilledPart) {
  const KernelVariant variant = {ElementType::bf16, ElementType::none, false, AdamMode::adamw, true};
  KernelVariant with_undo = variant;
  with_undo.undo = true;
  TestState state = random_state(3000, variant.grad, 5, true);
  TensorStep step = step_of(state, variant);
  step.kernel = adam_kernel(chosen_isa(), with_undo);
  UndoLog log = {};
  const Slice slice = {1024, 2048};
  begin_run(log, 1, 0);
  step_part(step, slice, 0, &log);
  EXPECT_EQ(roll_back(log, 1, arrays_of(step, slice, 0), step.format), slice.size())
      << "the log says that all is stepped";
}

TEST(TensorStep, EachRangeIsARunOfTheSameChunk) {
  const KernelVariant variant = {.undo = true, .format = StateFormat::bf16};
  TestState state = random_state(3000, variant.grad, 5, true);
  to_format(state, variant.format);
  const ElementRange ranges[] = {{1056, 7}, {1504, 9}};
  TensorStep step = step_of(state, variant);
  step.ranges = ranges;
  UndoLog log = {};
  begin_run(log, 4, 128);  // as after a kill: 128 elements of the slice that begins at 896 are stepped
  step_part(step, {1024, 2048}, 0, &log);
  const UndoRun& last = log.runs[log.current];
  EXPECT_EQ(last.chunk_number, 4U);
  EXPECT_EQ(last.begin, 1504U - 896) << "counted in the slice, like those of other runs";
  EXPECT_EQ(roll_back(log, 4, arrays_of(step, {896, 2048}, 0), step.format), 2048U - 896);
}

}  // namespace
}  // namespace zf
