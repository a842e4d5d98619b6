// Removes blanks around a text.
#pragma once

#include <string_view>

namespace zf {

/// What stands behind the value in a file of /proc or /sys: a newline, on kernels of EL7 also blanks and NUL
/// bytes.
inline constexpr std::string_view kKernelBlanks{" \t\n\0", 4};

/// Returns the text without the characters of `blanks` at its two ends; empty if it has no others.
inline std::string_view trim(std::string_view text, std::string_view blanks = " \t") {
  const auto first = text.find_first_not_of(blanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

}  // namespace zf
