#include "engine/streaming.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "engine/half.hpp"
#include "kernel_fixture.hpp"

namespace zf {
namespace {

constexpr std::size_t kRoom = 600;

/// Memory with a value that no copy has, from a cache line on.
AlignedArray<unsigned char> untouched() {
  AlignedArray<unsigned char> memory(kRoom * sizeof(float));
  for (unsigned char& byte : memory) byte = 0xa5;
  return memory;
}

std::vector<std::uint16_t> any_halves() {
  std::mt19937 random(5);
  std::vector<std::uint16_t> halves(2 * kRoom);
  for (std::uint16_t& half : halves) half = static_cast<std::uint16_t>(random());
  return halves;
}

TEST(Streaming, CopiesTheseBytesAndNoOthersBetweenAnyEvenAddresses) {
  const std::vector<std::uint16_t> from = any_halves();
  for (const Isa isa : supported_isas()) {
    for (const std::size_t bytes : {0U, 2U, 4U, 30U, 62U, 64U, 66U, 254U, 1024U, 1100U}) {
      for (const std::size_t at : {0U, 2U, 4U, 16U, 32U, 60U, 62U, 64U}) {
        for (const std::size_t first : {0U, 1U, 7U, 16U}) {
          AlignedArray<unsigned char> to = untouched();
          AlignedArray<unsigned char> expected = untouched();
          std::memcpy(expected.data() + at, from.data() + first, bytes);
          stream_kernel(isa)({.from = from.data() + first, .to = to.data() + at, .bytes = bytes});
          EXPECT_EQ(std::memcmp(to.data(), expected.data(), to.size()), 0)
              << name_of(isa) << ' ' << bytes << ' ' << at << ' ' << first;
        }
      }
    }
  }
}

TEST(Streaming, JoinsSplitMasters) {
  std::vector<std::uint16_t> high = any_halves();
  std::vector<std::uint16_t> low = any_halves();
  std::mt19937 random(6);
  for (std::size_t i = 0; i < low.size(); i += 3) {  // NaNs and infinities among them
    high[i] = static_cast<std::uint16_t>(0x7f7f + random() % 3);
    low[i] = static_cast<std::uint16_t>(random());
  }
  for (const Isa isa : supported_isas()) {
    for (const std::size_t n : {0U, 1U, 7U, 8U, 15U, 16U, 17U, 31U, 100U, 256U}) {
      for (const std::size_t at : {0U, 1U, 3U, 8U, 15U}) {
        AlignedArray<unsigned char> to = untouched();
        AlignedArray<unsigned char> expected = untouched();
        for (std::size_t i = 0; i < n; ++i) {
          const float joined = f32_of_split({.high = high[i + 1], .low = low[i + 1]});
          std::memcpy(expected.data() + (at + i) * sizeof joined, &joined, sizeof joined);
        }
        stream_kernel(isa)({.from = low.data() + 1,
                            .high = high.data() + 1,
                            .to = to.data() + at * sizeof(float),
                            .bytes = n * sizeof(float)});
        EXPECT_EQ(std::memcmp(to.data(), expected.data(), to.size()), 0)
            << name_of(isa) << ' ' << n << ' ' << at;
      }
    }
  }
}

}  // namespace
}  // namespace zf
