#include "base/text.hpp"

#include <fmt/core.h>

#include <algorithm>

namespace zf {
namespace {

unsigned char byte(char c) { return static_cast<unsigned char>(c); }

/// Returns true for U+0000 to U+001F and U+007F.
bool is_control(char c) { return byte(c) < 0x20 || c == 0x7f; }

/// Prints three significant digits, and more where the whole part has more.
std::string three_digits(double value, std::string_view unit) {
  return value < 999.5 ? fmt::format("{:.3g} {}", value, unit) : fmt::format("{:.0f} {}", value, unit);
}

}  // namespace

std::string strip_control_chars(std::string text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (is_control(text[i]) && text[i] != '\n') text[i] = ' ';
    // U+0080 to U+009F in UTF-8 are control characters too: a terminal takes U+009B for ESC and a bracket.
    if (i > 0 && byte(text[i - 1]) == 0xc2 && byte(text[i]) >= 0x80 && byte(text[i]) <= 0x9f) {
      text[i - 1] = text[i] = ' ';
    }
  }
  return text;
}

std::string one_line(std::string text) {
  text = strip_control_chars(std::move(text));
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

std::string print_count(std::size_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::string print_bytes(std::uint64_t bytes) {
  const auto number = static_cast<double>(bytes);
  if (number >= 0x1p40) return three_digits(number / 0x1p40, "TiB");
  if (number >= 0x1p30) return three_digits(number / 0x1p30, "GiB");
  if (number >= 0x1p20) return three_digits(number / 0x1p20, "MiB");
  return print_count(bytes, "byte");
}

}  // namespace zf
