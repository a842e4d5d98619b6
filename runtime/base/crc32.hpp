// The checksum of zip, PNG and Ethernet (CRC-32, polynomial 0xEDB88320): what Python's zlib.crc32 answers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace zf {

/// Of what came before (0: nothing) with `bytes` after it. Finds every change within 32 bits in a row, and
/// others but for one in 2^32.
std::uint32_t crc32(std::uint32_t before, std::span<const std::byte> bytes);

}  // namespace zf
