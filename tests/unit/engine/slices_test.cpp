#include "engine/slices.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace zf {
namespace {

TEST(Slices, PartitionInOrderOnPageBoundariesAndBalanced) {
  const std::size_t sizes[] = {
      0, 1, 15, 1023, 1024, 1025, 4096, 10'000, 1'000'003, 128ULL << 20, (3ULL << 30) + 7};
  for (const std::size_t elements : sizes) {
    for (std::size_t threads = 1; threads <= 130; ++threads) {
      const std::vector<Slice> slices = slices_of(elements, threads);
      ASSERT_EQ(slices.size(), threads);
      std::size_t at = 0;
      std::size_t least = elements;
      std::size_t most = 0;
      for (const Slice& slice : slices) {
        ASSERT_EQ(slice.begin, at);
        ASSERT_GE(slice.end, slice.begin);
        ASSERT_TRUE(slice.end % kSliceGrain == 0 || slice.end == elements);
        least = std::min(least, slice.size());
        most = std::max(most, slice.size());
        at = slice.end;
      }
      ASSERT_EQ(at, elements);
      ASSERT_LT(most - least, 2 * kSliceGrain) << elements << " over " << threads;
    }
  }
}

TEST(Slices, TooLittleLeavesEmptyOnes) {
  const std::vector<Slice> expected = {{0, 1024}, {1024, 1030}, {1030, 1030}, {1030, 1030}};
  EXPECT_EQ(slices_of(1030, 4), expected);
}

}  // namespace
}  // namespace zf
