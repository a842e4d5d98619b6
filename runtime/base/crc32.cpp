#include "base/crc32.hpp"

#include <array>
#include <bit>
#include <cstring>

namespace zf {
namespace {

constexpr std::uint32_t kPolynomial = 0xEDB88320U;
using Table = std::array<std::uint32_t, 256>;

/// tables[k][byte]: what a byte does to the checksum when k bytes come after it. Eight bytes are then eight
/// independent look-ups ("slicing by 8"), 4 to 5 times as fast as one byte after the other.
constexpr std::array<Table, 8> make_tables() {
  std::array<Table, 8> tables = {};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t value = byte;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1U) != 0 ? kPolynomial : 0U);
    tables[0][byte] = value;
  }
  for (std::size_t k = 1; k < tables.size(); ++k) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const std::uint32_t before = tables[k - 1][byte];
      tables[k][byte] = (before >> 8) ^ tables[0][before & 0xffU];
    }
  }
  return tables;
}

constexpr std::array<Table, 8> kTables = make_tables();
static_assert(std::endian::native == std::endian::little, "the eight bytes are read as one number");

}  // namespace

std::uint32_t crc32(std::uint32_t before, std::span<const std::byte> bytes) {
  std::uint32_t crc = ~before;
  const std::byte* at = bytes.data();
  std::size_t left = bytes.size();
  for (; left >= 8; left -= 8, at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, at, sizeof word);
    word ^= crc;
    crc = 0;
    for (std::size_t k = 0; k < 8; ++k) crc ^= kTables[7 - k][(word >> (8 * k)) & 0xffU];
  }
  for (; left != 0; --left, ++at)
    crc = (crc >> 8) ^ kTables[0][(crc ^ std::to_integer<std::uint32_t>(*at)) & 0xffU];
  return ~crc;
}

}  // namespace zf
