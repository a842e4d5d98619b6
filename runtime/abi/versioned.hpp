// Reads and writes structs of the C ABI, which begin with their size, of programs built with another version
// of the header.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "abi/status.hpp"
#include "base/format.hpp"

namespace zf {

/// Copies what *ours knows of a program's struct of `size` bytes. Returns whether the rest of that is zero.
template <class Struct>
bool copy_known(const void* given, std::size_t size, Struct* ours) {
  const auto* const bytes = static_cast<const unsigned char*>(given);
  const std::size_t known = std::min(size, sizeof(Struct));
  std::memcpy(ours, bytes, known);
  return std::all_of(bytes + known, bytes + size, [](unsigned char byte) { return byte == 0; });
}

[[noreturn]] inline void refuse_unknown(std::string_view name) {
  throw AbiError(
      ZF_ERROR_ABI,
      format_text("{}: the program uses fields that this library ({}) does not have", name, zf_version()),
      "install the library that the program was built for");
}

[[noreturn]] inline void refuse_size(std::uint32_t size, std::string_view name) {
  throw AbiError(ZF_ERROR_ABI, format_text("{}.struct_size is {}", name, size),
                 format_text("set it with the INIT macro of {}", name));
}

/// Returns a copy of *given in our own version. Members that an older program does not have are taken from
/// `defaults`. Throws AbiError(ZF_ERROR_ABI) if the struct is smaller than its first version (the size was
/// forgotten), or if it is larger than ours and the additional bytes are not zero.
template <class Struct>
Struct read_versioned(const Struct* given, const Struct& defaults, std::size_t first_version_bytes,
                      std::string_view name) {
  std::uint32_t size = 0;
  std::memcpy(&size, given, sizeof size);
  if (size < first_version_bytes || size > 4096) refuse_size(size, name);
  Struct ours = defaults;
  if (!copy_known(given, size, &ours)) refuse_unknown(name);
  ours.struct_size = sizeof(Struct);
  return ours;
}

/// Fills *given, up to its struct_size. Throws AbiError(ZF_ERROR_ABI) if the size was forgotten.
template <class Struct>
void write_versioned(const Struct& ours, Struct* given, std::string_view name) {
  const std::uint32_t size = given->struct_size;
  if (size < sizeof(std::uint32_t)) refuse_size(size, name);
  std::memcpy(given, &ours, std::min<std::size_t>(size, sizeof ours));
  given->struct_size = size;
}

/// Throws AbiError(ZF_ERROR_ABI) if a program's array of structs has elements of a size that this library
/// cannot read. `field` is the name of the member that holds the size, and `next` what to do.
inline void check_element_size(std::uint32_t size, std::size_t first_version_bytes, std::string_view field,
                               std::string_view next) {
  if (size >= first_version_bytes && size <= 4096) return;
  throw AbiError(ZF_ERROR_ABI, format_text("{} is {}", field, size), next);
}

/// Returns element `index` of a program's array of structs of `size` bytes each, in our own version. Members
/// that the program does not know are zero. Throws AbiError(ZF_ERROR_ABI) if it uses members that we do not
/// know. `name` is that of one element.
template <class Struct>
Struct element_of(const Struct* array, std::size_t index, std::uint32_t size, std::string_view name) {
  const auto* const element = reinterpret_cast<const unsigned char*>(array) + index * size;
  Struct ours = {};
  if (!copy_known(element, size, &ours)) refuse_unknown(format_text("{} {}", name, index));
  return ours;
}

/// Throws AbiError(ZF_ERROR_ABI) if the program was built for another ZF_ABI_VERSION than ours.
inline void check_abi_version(std::uint32_t version) {
  if (version == ZF_ABI_VERSION) return;
  throw AbiError(ZF_ERROR_ABI,
                 format_text("the program was built for ABI version {}, this library ({}) has {}", version,
                             zf_version(), ZF_ABI_VERSION),
                 "install the library that it was built for, or rebuild the program");
}

/// Copies as much of the text as fits into a field that is all zero.
template <std::size_t kSize>
void copy_text(std::string_view text, char (&field)[kSize]) {
  std::memcpy(field, text.data(), std::min(text.size(), kSize - 1));
}

/// Returns an argument of a call. Throws AbiError(ZF_ERROR_USAGE) with its name if it is null.
template <class Pointer>
Pointer required(Pointer pointer, std::string_view name) {
  if (pointer == nullptr) throw AbiError(ZF_ERROR_USAGE, format_text("{} is NULL", name));
  return pointer;
}

}  // namespace zf
