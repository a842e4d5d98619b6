#include "ipc/arena_layout.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "base/error.hpp"

namespace zf {
namespace {

using testing::HasSubstr;

std::vector<GroupShape> random_groups(std::mt19937& random) {
  std::vector<GroupShape> groups(1 + random() % 20);
  for (GroupShape& group : groups) {
    group.elements = random() % 3 == 0 ? random() % 5 : random() % 5'000'000;
    group.grad_type = static_cast<ElementType>(1 + random() % 3);
    group.copy_type = random() % 2 == 0 ? ElementType::none : static_cast<ElementType>(2 + random() % 2);
    group.stale = random() % 2 == 0;
    group.moment_sets = 1 + random() % 2;
    if (random() % 2 == 0) continue;
    group.format = static_cast<StateFormat>(random() % 4);
    group.copy_type = ElementType::bf16;
    group.stale = false;
    group.moment_sets = 1;
  }
  return groups;
}

/// Returns every range of memory in a layout, the control area first.
std::vector<ArrayPlace> all_places(const ArenaLayout& layout) {
  std::vector<ArrayPlace> places = {{0, sizeof(ControlBlock)},
                                    {layout.groups_offset, layout.shapes.size() * sizeof(GroupBlock)},
                                    {layout.ring_offset, layout.ring_capacity * sizeof(WorkEntry)},
                                    {layout.undo_offset, layout.members * sizeof(UndoLog)},
                                    {layout.members_offset, layout.members * sizeof(MemberProgress)}};
  for (const auto& arrays : layout.arrays) places.insert(places.end(), arrays.begin(), arrays.end());
  return places;
}

TEST(ArenaLayout, PartsAreAlignedDisjointAndInside) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    const ArenaLayout layout = arena_layout(random_groups(random), 1 + random() % 70);
    std::uint64_t end = 0;
    for (const ArrayPlace& place : all_places(layout)) {
      ASSERT_GE(place.offset, end);
      end = place.offset + place.bytes;
    }
    ASSERT_LE(end, layout.bytes);
    ASSERT_EQ(layout.bytes % kPageBytes, 0U);
    ASSERT_EQ(layout.arrays_offset % kPageBytes, 0U);
    ASSERT_EQ(layout.groups_offset % alignof(GroupBlock), 0U);
    for (const auto& arrays : layout.arrays) {
      for (const ArrayPlace& array : arrays) ASSERT_EQ(array.offset % kPageBytes, 0U);
    }
  }
}

TEST(ArenaLayout, LargeArraysOfAPowerOfTwoNeverLineUp) {
  const ArenaLayout layout =
      arena_layout({{.elements = 1U << 26, .copy_type = ElementType::bf16, .stale = true, .moment_sets = 2}});
  std::vector<std::uint64_t> low_bits;
  for (const ArrayPlace& array : layout.arrays.front()) low_bits.push_back(array.offset % (1U << 20));
  std::sort(low_bits.begin(), low_bits.end());
  EXPECT_EQ(std::adjacent_find(low_bits.begin(), low_bits.end()), low_bits.end()) << "see base/stagger.hpp";
}

TEST(ArenaLayout, ManySmallGroupsPayForNoGaps) {
  const ArenaLayout layout = arena_layout(std::vector<GroupShape>(1000, GroupShape{.elements = 1024}));
  EXPECT_LE(layout.bytes - layout.arrays_offset, 1000 * (3 * 4096 + 2 * 4096));
}

TEST(ArenaLayout, ArraysHaveTheBytesOfTheirTypes) {
  const ArenaLayout layout = arena_layout(
      {{.elements = 1000, .grad_type = ElementType::bf16, .copy_type = ElementType::f16, .stale = true},
       {.elements = 7}});
  const auto bytes = [&](std::size_t group, ArrayKind kind) {
    return layout.arrays[group][static_cast<std::size_t>(kind)].bytes;
  };
  for (const ArrayKind kind : {ArrayKind::params, ArrayKind::moment1, ArrayKind::moment2, ArrayKind::stale}) {
    EXPECT_EQ(bytes(0, kind), 4000U);
  }
  for (const ArrayKind kind : {ArrayKind::grads0, ArrayKind::grads1, ArrayKind::copy}) {
    EXPECT_EQ(bytes(0, kind), 2000U);
  }
  EXPECT_EQ(bytes(1, ArrayKind::grads1), 28U);
  EXPECT_EQ(bytes(1, ArrayKind::stale), 0U);
  EXPECT_EQ(bytes(1, ArrayKind::copy), 0U);
}

TEST(ArenaLayout, StateFormatsTakeFewerBytes) {
  const auto bytes_of_arrays = [](StateFormat format) {
    const ArenaLayout layout =
        arena_layout({{.elements = 1000, .copy_type = ElementType::bf16, .format = format}});
    std::vector<std::uint64_t> bytes;
    for (const ArrayPlace& array : layout.arrays.front()) bytes.push_back(array.bytes);
    return bytes;
  };
  using testing::ElementsAre;
  EXPECT_THAT(bytes_of_arrays(StateFormat::fp32), ElementsAre(4000, 4000, 4000, 4000, 4000, 0, 2000, 0, 0));
  EXPECT_THAT(bytes_of_arrays(StateFormat::bf16), ElementsAre(4000, 2000, 2000, 4000, 4000, 0, 2000, 0, 0));
  EXPECT_THAT(bytes_of_arrays(StateFormat::split), ElementsAre(2000, 4000, 4000, 4000, 4000, 0, 2000, 0, 0));
  EXPECT_THAT(bytes_of_arrays(StateFormat::bf16_split),
              ElementsAre(2000, 2000, 2000, 4000, 4000, 0, 2000, 0, 0));
}

TEST(ArenaLayout, OnlyTheGroupThatAsksForTwoMomentSetsPaysForThem) {
  constexpr std::uint64_t kElements = 5000;
  constexpr std::uint64_t kPages = 5;  // 5000 floats need that many
  const GroupShape one = {.elements = kElements, .stale = true};
  GroupShape two = one;
  two.moment_sets = 2;
  EXPECT_EQ(arena_layout({one, two}).bytes, arena_layout({one, one}).bytes + 2 * kPages * kPageBytes);
  const ArenaLayout layout = arena_layout({one, two});
  for (const ArrayKind kind : {ArrayKind::moment1_set1, ArrayKind::moment2_set1}) {
    EXPECT_EQ(layout.arrays[0][static_cast<std::size_t>(kind)].bytes, 0U);
    EXPECT_EQ(layout.arrays[1][static_cast<std::size_t>(kind)].bytes, kElements * 4);
  }
}

TEST(ArenaLayout, ChunksHaveTheBytesAskedForInTheCopy) {
  const auto elements = [](ElementType copy, std::uint64_t chunk_bytes) {
    return chunk_elements({.elements = 1, .copy_type = copy, .chunk_bytes = chunk_bytes});
  };
  EXPECT_EQ(elements(ElementType::bf16, kChunkBytes), kChunkBytes / 2);
  EXPECT_EQ(elements(ElementType::none, kChunkBytes), kChunkBytes / 4);
  EXPECT_EQ(elements(ElementType::f16, 3 * kPageBytes + 1), 3 * kChunkGrain) << "whole pages";
  EXPECT_EQ(elements(ElementType::f16, 1), kChunkGrain) << "never nothing";
}

TEST(ArenaLayout, RingHasRoomForEveryGroupAndBuffer) {
  for (std::size_t groups = 1; groups < 70; ++groups) {
    const ArenaLayout layout = arena_layout(std::vector<GroupShape>(groups, GroupShape{.elements = 1}));
    EXPECT_GE(layout.ring_capacity, groups * kGradBuffers * kWorkKinds);
    EXPECT_EQ(layout.ring_capacity & (layout.ring_capacity - 1), 0U);
  }
  const auto capacity = [](std::uint64_t chunks) {
    return arena_layout({{.elements = chunks * kChunkGrain, .chunk_bytes = 1, .speculative = true}})
        .ring_capacity;
  };
  EXPECT_GE(capacity(20), (20 + kWorkKinds) * kGradBuffers) << "and for every chunk of a speculation";
  EXPECT_GE(capacity(1000), (kMaxSpeculations + kWorkKinds) * kGradBuffers);
  EXPECT_LE(capacity(1000), 1000U);
}

TEST(ArenaLayout, RefusalsNameTheGroup) {
  const auto refusal = [](const std::vector<GroupShape>& groups) -> std::string {
    try {
      arena_layout(groups);
    } catch (const Error& error) {
      EXPECT_EQ(error.exit(), Exit::usage);
      return error.what();
    }
    return "none";
  };
  EXPECT_THAT(refusal({}), HasSubstr("0 groups"));
  EXPECT_THAT(refusal({{.elements = 1}, {.elements = kMaxElements + 1}}), HasSubstr("group 1: "));
  EXPECT_THAT(refusal({{.elements = 1, .grad_type = ElementType::none}}), HasSubstr("not a gradient type"));
  EXPECT_THAT(refusal({{.elements = 1, .copy_type = ElementType::f32}}), HasSubstr("not a copy type"));
  EXPECT_THAT(refusal({{.elements = 1, .moment_sets = 0}}), HasSubstr("group 0: 0 sets of moments"));
  EXPECT_THAT(refusal({{.elements = 1, .moment_sets = 3}}), HasSubstr("use 1 or 2"));
  EXPECT_THAT(refusal({{.elements = 1, .grad_buffers = 3}}), HasSubstr("group 0: 3 gradient buffers"));
  EXPECT_THAT(refusal({{.elements = 1, .format = static_cast<StateFormat>(4)}}),
              HasSubstr("group 0: 4 is not a state format; use fp32, bf16, split or bf16+split"));
  EXPECT_THAT(refusal({{.elements = 1, .stale = true, .format = StateFormat::bf16}}),
              HasSubstr("the state format bf16 does not go together with stale"));
  EXPECT_THAT(refusal({{.elements = 1, .format = StateFormat::bf16_split}}),
              HasSubstr("bf16+split needs a copy in bf16"));
  const auto of_ranges = [](std::vector<ElementRange> ranges) {
    return std::vector<GroupShape>{{.elements = 100, .ranges = std::move(ranges)}};
  };
  EXPECT_THAT(refusal(of_ranges({{128, 0}})),
              HasSubstr("range 0: position 128 is outside of its 100 elements"));
  EXPECT_THAT(refusal(of_ranges({{0, 0}, {48, 0}})), HasSubstr("range 1: position 48 is no multiple of 32"));
  EXPECT_THAT(refusal(of_ranges({{32, 0}, {32, 0}})),
              HasSubstr("range 1: position 32 is not after that of the range before"));
  EXPECT_THAT(refusal(std::vector<GroupShape>(10000, GroupShape{.elements = kMaxElements})),
              HasSubstr("2^62"));
}

}  // namespace
}  // namespace zf
