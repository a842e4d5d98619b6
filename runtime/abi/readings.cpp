#include "abi/readings.hpp"

#include <cstring>
#include <string_view>

#include "abi/status.hpp"
#include "abi/versioned.hpp"
#include "base/format.hpp"
#include "local/overlaps.hpp"

// A release never changes this layout. It only adds members at the end.
static_assert(sizeof(zf_reading) == 48 && offsetof(zf_reading, copy) == 16 &&
              offsetof(zf_reading, type) == 24 && offsetof(zf_reading, sum_of_squares) == 32 &&
              offsetof(zf_reading, digest) == 40);

namespace zf {
namespace {

constexpr std::size_t kFirstReadingBytes = 48;
constexpr std::uint32_t kKnownWishes = ZF_READ_NORM | ZF_READ_DIGEST | ZF_READ_ALONE;

[[noreturn]] void refuse(std::size_t index, std::string_view what, std::string_view next = {}) {
  throw AbiError(ZF_ERROR_USAGE, format_text("reading {}: {}", index, what), next);
}

MemoryRange range_of(const void* array, std::size_t bytes) {
  const auto begin = reinterpret_cast<std::uintptr_t>(array);
  return {begin, begin + bytes};
}

void check_pointer(std::size_t index, const void* array, std::size_t element_bytes, std::string_view name) {
  if (reinterpret_cast<std::uintptr_t>(array) % element_bytes == 0) return;
  refuse(index, format_text("{} is at address {}; it must be at a multiple of {} bytes", name, array,
                            element_bytes));
}

Reading reading_of(const zf_reading& given, std::size_t index) {
  constexpr std::uint64_t most_elements = std::uint64_t{1} << 56;  // a size can count their bytes
  if (given.type < ZF_F32 || given.type > ZF_F16)
    refuse(index, format_text("type is {}; it must be ZF_F32, ZF_BF16 or ZF_F16", given.type));
  if (given.reserved != 0) refuse(index, format_text("reserved is {}; it must be 0", given.reserved));
  Reading reading;
  reading.type = static_cast<ElementType>(given.type);
  if (given.elements == 0) return reading;
  if (given.elements > most_elements) refuse(index, format_text("elements is {}", given.elements));
  if (given.array == nullptr) refuse(index, "array is NULL");
  const std::size_t element_bytes = given.type == ZF_F32 ? sizeof(float) : sizeof(std::uint16_t);
  check_pointer(index, given.array, element_bytes, "array");
  check_pointer(index, given.copy, element_bytes, "copy");
  reading.array = given.array;
  reading.copy = given.copy;
  reading.elements = given.elements;
  if (given.copy != nullptr &&
      overlap(range_of(given.array, reading.bytes()), range_of(given.copy, reading.bytes())))
    refuse(index, "array and copy overlap in memory", "give the copy memory of its own");
  return reading;
}

}  // namespace

std::vector<Reading> read_readings(const ReadingList& list) {
  if ((list.what & ~kKnownWishes) != 0) {
    throw AbiError(ZF_ERROR_USAGE, format_text("what is {}; this library ({}) knows the bits of {}",
                                               list.what, zf_version(), kKnownWishes));
  }
  check_element_size(list.reading_size, kFirstReadingBytes, "reading_size", "set it to sizeof(zf_reading)");
  if (list.readings == nullptr && list.count != 0)
    throw AbiError(ZF_ERROR_USAGE, format_text("readings is NULL, and count is {}", list.count));
  std::vector<Reading> readings;
  readings.reserve(list.count);
  for (std::size_t i = 0; i < list.count; ++i) {
    readings.push_back(reading_of(element_of(list.readings, i, list.reading_size, "reading"), i));
  }
  return readings;
}

ReadWish wish_of(const ReadingList& list) {
  return {.norm = (list.what & ZF_READ_NORM) != 0, .digest = (list.what & ZF_READ_DIGEST) != 0};
}

void write_results(const std::vector<Reading>& readings, const ReadingList& list) {
  const ReadWish wish = wish_of(list);
  auto* at = reinterpret_cast<unsigned char*>(list.readings);
  for (const Reading& reading : readings) {
    if (wish.norm)
      std::memcpy(at + offsetof(zf_reading, sum_of_squares), &reading.sum_of_squares, sizeof(double));
    if (wish.digest) std::memcpy(at + offsetof(zf_reading, digest), &reading.digest, sizeof(std::uint64_t));
    at += list.reading_size;
  }
}

}  // namespace zf
