// Text for people: cleaned if others wrote it, counts with their noun, and sizes in the largest fitting unit.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace zf {

/// The longest line that one_line() returns, in bytes.
inline constexpr std::size_t kLongestLine = 4000;

/// Replaces characters that others may have put into a name to drive or deceive the terminal by blanks:
/// control characters (C0, C1) and the invisible ones that turn the direction of text or end a line, such as
/// U+202E and U+2028. Replaces each byte that is not UTF-8 by a question mark. Keeps line ends.
std::string strip_control_chars(std::string_view text);

/// Does the same and replaces line ends by blanks. Cuts the text at kLongestLine, and ends it with "..."
/// then.
std::string one_line(std::string_view text);

/// Writes the same characters of a JSON text as escapes like \u202e, so that its meaning stays. Keeps line
/// ends.
std::string escape_control_chars(std::string_view json);

/// Returns a count and its noun: "1 core", "2 cores".
std::string print_count(std::size_t count, std::string_view noun);
/// Does the same. Precondition: the count is not negative.
template <std::signed_integral Count>
std::string print_count(Count count, std::string_view noun) {
  return print_count(static_cast<std::size_t>(count), noun);
}

/// Returns "A", "A and B", "A, B and C". Precondition: there is a word.
std::string enumerated(const std::vector<std::string>& words);

/// Returns "64 GiB", "1.23 TiB", "512 bytes": three significant digits, below 1 MiB whole bytes.
std::string print_bytes(std::uint64_t bytes);

}  // namespace zf
