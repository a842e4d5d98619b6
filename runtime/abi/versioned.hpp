// Reads structs of the C ABI, which begin with their size, from programs built with another version of the
// header.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "abi/status.hpp"
#include "base/format.hpp"

namespace zf {

/// Returns a copy of *given in our own version. Members that an older program does not have are taken from
/// `defaults`. Throws AbiError(ZF_ERROR_ABI) if the struct is smaller than its first version (the size was
/// forgotten), or if it is larger than ours and the additional bytes are not zero.
template <class Struct>
Struct read_versioned(const Struct* given, const Struct& defaults, std::size_t first_version_bytes,
                      std::string_view name) {
  std::uint32_t size = 0;
  std::memcpy(&size, given, sizeof size);
  if (size < first_version_bytes || size > 4096) {
    throw AbiError(ZF_ERROR_ABI, format_text("{}.struct_size is {}", name, size),
                   format_text("set it with the INIT macro of {}", name));
  }
  const auto* const bytes = reinterpret_cast<const unsigned char*>(given);
  const std::size_t known = std::min<std::size_t>(size, sizeof(Struct));
  if (std::any_of(bytes + known, bytes + size, [](unsigned char byte) { return byte != 0; })) {
    throw AbiError(
        ZF_ERROR_ABI,
        format_text("{}: the program uses fields that this library ({}) does not have", name, zf_version()),
        "install the library that the program was built for");
  }
  Struct ours = defaults;
  std::memcpy(&ours, bytes, known);
  ours.struct_size = sizeof(Struct);
  return ours;
}

}  // namespace zf
