// Text for people: cleaned if others wrote it, counts with their noun, and sizes in the largest fitting unit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace zf {

/// Replaces control characters by blanks, so that a name in a file cannot drive the terminal. Keeps line
/// ends.
std::string strip_control_chars(std::string text);

/// Replaces control characters and also line ends by blanks.
std::string one_line(std::string text);

/// Returns a count and its noun: "1 core", "2 cores".
std::string print_count(std::size_t count, std::string_view noun);

/// Returns "64 GiB", "1.23 TiB", "512 bytes": three significant digits, below 1 MiB whole bytes.
std::string print_bytes(std::uint64_t bytes);

}  // namespace zf
