#include "measure/working_set_size.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace zf {
namespace {

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

TEST(WorkingSetSize, LeavesTheCaches) {
  const auto size = working_set_size(0, 1, 32 << 20, 256 * kGiB);
  EXPECT_GT(size.elements_per_rank * 16, kGiB);
  EXPECT_TRUE(size.warning.empty());
  EXPECT_GE(working_set_size(0, 1, 2 * kGiB, 256 * kGiB).elements_per_rank * 16, 8 * kGiB);
}

TEST(WorkingSetSize, IsSharedByTheRanks) {
  const auto one = working_set_size(0, 1, 0, 256 * kGiB);
  const auto eight = working_set_size(0, 8, 0, 256 * kGiB);
  EXPECT_EQ(eight.elements_per_rank, one.elements_per_rank / 8);
}

TEST(WorkingSetSize, TakesNoMoreThanHalfOfTheMemoryAndSaysSo) {
  const auto size = working_set_size(0, 1, 0, kGiB / 2);
  EXPECT_LE(size.elements_per_rank * 16, kGiB / 4);
  EXPECT_THAT(size.warning, testing::HasSubstr("512 MiB"));
}

TEST(WorkingSetSize, AModelThatFitsTheCachesIsMeasuredThereAndSaidSo) {
  const auto size = working_set_size(1'000'000, 1, 32 << 20, 256 * kGiB);
  EXPECT_EQ(size.elements_per_rank, 1'000'000U);
  EXPECT_THAT(size.warning, testing::HasSubstr("caches"));
}

}  // namespace
}  // namespace zf
