#include "os/meminfo.hpp"

#include <gtest/gtest.h>

namespace zf {
namespace {

TEST(Meminfo, ReadsOneFieldInBytes) {
  constexpr const char* text = "MemTotal:       24166604 kB\nMemAvailable:      12 kB\nSwapFree:  0 kB\n";
  EXPECT_EQ(meminfo_bytes(text, "MemAvailable"), 12U * 1024U);
  EXPECT_EQ(meminfo_bytes(text, "SwapFree"), 0U);
  EXPECT_EQ(meminfo_bytes("Node 0 MemTotal:  7563468 kB", "MemTotal"), std::uint64_t{7563468} * 1024U);
}

TEST(Meminfo, AFieldThatIsMissingIsAbsent) {
  EXPECT_EQ(meminfo_bytes("", "MemTotal"), std::nullopt);
  EXPECT_EQ(meminfo_bytes("MemTotal: 1 kB", "MemAvailable"), std::nullopt);
  EXPECT_EQ(meminfo_bytes("MemTotal: kB", "MemTotal"), std::nullopt);
}

}  // namespace
}  // namespace zf
