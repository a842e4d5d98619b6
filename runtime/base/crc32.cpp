#include "base/crc32.hpp"

#include <zlib.h>

namespace zf {

std::uint32_t crc32(std::uint32_t before, std::span<const std::byte> bytes) {
  if (bytes.empty()) return before;  // zlib takes a null pointer as the request for the initial value
  return static_cast<std::uint32_t>(
      ::crc32_z(before, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size()));
}

}  // namespace zf
