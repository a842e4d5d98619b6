// Text for people: cleaned if others wrote it, and sizes in the largest fitting unit.
#pragma once

#include <cstdint>
#include <string>

namespace zf {

/// Replaces control characters by blanks, so that a name in a file cannot drive the terminal. Keeps line
/// ends.
std::string strip_control_chars(std::string text);

/// Replaces control characters and also line ends by blanks.
std::string one_line(std::string text);

/// Returns "64 GiB", "1.23 TiB", "512 bytes": three significant digits, below 1 MiB whole bytes.
std::string print_bytes(std::uint64_t bytes);

}  // namespace zf
