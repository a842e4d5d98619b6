// Reads /proc/meminfo, and the file of the same form that each NUMA node has.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace zf {

/// Returns the bytes of a field such as "MemAvailable" in the text of a meminfo file. Its lines read
/// "MemAvailable:   24166604 kB". Returns nullopt if the field or its number is missing.
std::optional<std::uint64_t> meminfo_bytes(std::string_view text, std::string_view field);

}  // namespace zf
