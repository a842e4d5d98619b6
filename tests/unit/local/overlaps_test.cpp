#include "local/overlaps.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace zf {
namespace {

using Batches = std::vector<std::size_t>;

WrittenRanges written(std::uintptr_t begin, std::uintptr_t end) { return {{{begin, end}, {}}}; }

TEST(Overlaps, NeighboursAndEmptyRangesDoNotOverlap) {
  EXPECT_FALSE(overlap({0, 8}, {8, 16}));
  EXPECT_TRUE(overlap({0, 9}, {8, 16}));
  EXPECT_TRUE(overlap({8, 9}, {0, 100}));
  EXPECT_FALSE(overlap({8, 8}, {0, 100}));
}

TEST(Overlaps, TensorsThatDoNotOverlapAreOneBatch) {
  EXPECT_EQ(batches_without_overlap(std::vector<WrittenRanges>{}), Batches{});
  EXPECT_EQ(
      batches_without_overlap(std::vector{written(8, 16), written(0, 8), written(4, 4), written(16, 20)}),
      (Batches{0, 0, 0, 0}));
}

TEST(Overlaps, TheLaterTensorOfAPairIsInALaterBatch) {
  EXPECT_EQ(batches_without_overlap(std::vector{written(100, 200), written(0, 50), written(0, 150)}),
            (Batches{0, 0, 1}));
  EXPECT_EQ(batches_without_overlap(std::vector{written(0, 10), written(0, 10), written(0, 10)}),
            (Batches{0, 1, 2}));
}

TEST(Overlaps, EachOfTheArraysCounts) {
  for (std::size_t i = 0; i < WrittenRanges().size(); ++i) {
    for (std::size_t j = 0; j < WrittenRanges().size(); ++j) {
      WrittenRanges first = {};
      WrittenRanges second = {};
      first[i] = {0, 40};
      second[j] = {38, 60};
      EXPECT_EQ(batches_without_overlap(std::vector{first, second}), (Batches{0, 1})) << i << " and " << j;
    }
  }
}

TEST(Overlaps, EveryPairOfRandomListsIsInOrder) {
  std::mt19937 random(3);
  for (int round = 0; round < 500; ++round) {
    std::vector<WrittenRanges> tensors(1 + random() % 12);
    for (WrittenRanges& tensor : tensors) {
      for (MemoryRange& range : tensor) {
        const std::uintptr_t begin = random() % 200;
        range = {begin, begin + random() % 12};
      }
    }
    const Batches batches = batches_without_overlap(tensors);
    for (std::size_t j = 0; j < tensors.size(); ++j) {
      std::size_t least = 0;
      for (std::size_t i = 0; i < j; ++i) {
        bool touches = false;
        for (const MemoryRange& a : tensors[i]) {
          for (const MemoryRange& b : tensors[j]) touches = touches || overlap(a, b);
        }
        if (touches) least = std::max(least, batches[i] + 1);
      }
      ASSERT_EQ(batches[j], least) << "round " << round << ", tensor " << j;
    }
  }
}

}  // namespace
}  // namespace zf
