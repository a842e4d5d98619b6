#include "base/address_space.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <string_view>

namespace zf {
namespace {

constexpr std::size_t kTiB = std::size_t{1} << 40;

std::size_t address_space() {
  unsigned long pages = 0;
  std::FILE* const file = std::fopen("/proc/self/statm", "re");
  if (file == nullptr || std::fscanf(file, "%lu", &pages) != 1) return 0;
  std::fclose(file);
  return pages * 4096;
}

TEST(MemoryHint, NamesTheLimitOnlyIfItLeavesTooLittleRoom) {
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
  EXPECT_STREQ(memory_hint(kTiB, "other"), "other");
  const rlimit far = {.rlim_cur = address_space() + kTiB, .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_AS, &far), 0);
  EXPECT_STREQ(memory_hint(kTiB / 2, "other"), "other");
  EXPECT_STREQ(memory_hint(2 * kTiB, "other"), "raise ulimit -v");
  EXPECT_STREQ(out_of_memory(), "out of memory; give the job more memory");
  ASSERT_EQ(setrlimit(RLIMIT_AS, &before), 0);
}

TEST(MemoryHint, NamesTheLimitOfDataOnlyIfItLeavesTooLittleRoom) {
#ifdef ZF_SANITIZED
  GTEST_SKIP() << "a sanitizer's shadow memory counts as data";
#endif
  constexpr std::size_t kGiB = std::size_t{1} << 30;
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_DATA, &before), 0);
  const rlimit small = {.rlim_cur = kGiB, .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_DATA, &small), 0);
  EXPECT_STREQ(memory_hint(kGiB / 2, "other"), "other");
  EXPECT_STREQ(memory_hint(kGiB, "other"), "raise ulimit -d");
  EXPECT_STREQ(memory_hint(kGiB * kTiB, "other"), "other") << "more than the addresses of a process";
  const rlimit little = {.rlim_cur = 4096, .rlim_max = before.rlim_max};  // with 0 the highest limit holds
  ASSERT_EQ(setrlimit(RLIMIT_DATA, &little), 0);
  EXPECT_STREQ(out_of_memory(), "out of memory; raise ulimit -d");
  ASSERT_EQ(setrlimit(RLIMIT_DATA, &before), 0);
}

}  // namespace
}  // namespace zf
