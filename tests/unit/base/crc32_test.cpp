#include "base/crc32.hpp"

#include <gtest/gtest.h>

#include <string_view>
#include <vector>

namespace zf {
namespace {

std::uint32_t crc_of(std::string_view text) { return crc32(0, std::as_bytes(std::span(text))); }

TEST(Crc32, HasTheCheckValueOfItsDefinition) {
  EXPECT_EQ(crc_of(""), 0U);
  EXPECT_EQ(crc_of("123456789"), 0xCBF43926U);
  EXPECT_EQ(crc_of("The quick brown fox jumps over the lazy dog"), 0x414FA339U);
}

TEST(Crc32, IsTheSameInAnyPieces) {
  std::vector<std::byte> bytes(1000);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 37 % 251);
  const std::span all(bytes);
  const std::uint32_t whole = crc32(0, all);
  for (std::size_t cut = 0; cut <= bytes.size(); ++cut) {
    ASSERT_EQ(crc32(crc32(0, all.first(cut)), all.subspan(cut)), whole) << cut;
  }
}

TEST(Crc32, SeesEveryFlippedBit) {
  std::vector<std::byte> bytes(100, std::byte{0x5a});
  const std::uint32_t whole = crc32(0, bytes);
  for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    bytes[bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
    ASSERT_NE(crc32(0, bytes), whole) << bit;
    bytes[bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
  }
}

}  // namespace
}  // namespace zf
