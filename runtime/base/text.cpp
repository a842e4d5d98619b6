#include "base/text.hpp"

#include <algorithm>
#include <optional>

#include "base/format.hpp"

namespace zf {
namespace {

/// A letter of UTF-8 text. A byte that is not UTF-8 is a letter without a code.
struct Letter {
  std::optional<char32_t> code;
  std::size_t bytes = 1;
};

/// Returns the first letter of a text that is not empty.
Letter first_letter(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  const std::size_t bytes = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < bytes) return {};
  char32_t code = lead & (0xffU >> (bytes + 1));
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0U) != 0x80) return {};
    code = code << 6 | (byte(i) & 0x3fU);
  }
  const bool too_long = code < (bytes == 4 ? 0x10000U : bytes == 3 ? 0x800U : 0x80U);
  if (too_long || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) return {};
  return {code, bytes};
}

/// Returns true for C0 and C1 control characters and for those that end a line or turn its direction.
bool is_control(char32_t code) {
  return code < 0x20 || (code >= 0x7f && code <= 0x9f) || code == 0x61c ||
         (code >= 0x200b && code <= 0x200f) || (code >= 0x2028 && code <= 0x202e) ||
         (code >= 0x2060 && code <= 0x206f) || code == 0xfeff || (code >= 0xfff9 && code <= 0xfffb);
}

/// Returns the text with replace(code) in the place of each control character except line ends.
template <class Replace>
std::string with_control_chars(std::string_view text, Replace replace) {
  std::string plain;
  plain.reserve(text.size());
  while (!text.empty()) {
    const Letter letter = first_letter(text);
    if (!letter.code) {
      plain += '?';
    } else if (*letter.code != U'\n' && is_control(*letter.code)) {
      plain += replace(*letter.code);
    } else {
      plain += text.substr(0, letter.bytes);
    }
    text.remove_prefix(letter.bytes);
  }
  return plain;
}

/// Prints three significant digits, and more where the whole part has more.
std::string three_digits(double value, std::string_view unit) {
  return value < 999.5 ? format_text("{:.3g} {}", value, unit) : format_text("{:.0f} {}", value, unit);
}

}  // namespace

std::string strip_control_chars(std::string_view text) {
  return with_control_chars(text, [](char32_t) { return ' '; });
}

std::string one_line(std::string_view text) {
  constexpr std::string_view cut = "...";
  std::string line = strip_control_chars(text.substr(0, kLongestLine + 4));
  std::replace(line.begin(), line.end(), '\n', ' ');
  if (line.size() <= kLongestLine) return text.size() > kLongestLine + 4 ? line + std::string(cut) : line;
  std::size_t end = kLongestLine - cut.size();
  while ((static_cast<unsigned char>(line[end]) & 0xc0U) == 0x80) --end;  // not inside a letter
  return line.substr(0, end) + std::string(cut);
}

std::string escape_control_chars(std::string_view json) {
  return with_control_chars(
      json, [](char32_t code) { return format_text("\\u{:04x}", static_cast<std::uint32_t>(code)); });
}

std::string print_count(std::size_t count, std::string_view noun) {
  return format_text("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::string enumerated(const std::vector<std::string>& words) {
  std::string text = words.front();
  for (std::size_t i = 1; i < words.size(); ++i)
    text += format_text("{}{}", i + 1 == words.size() ? " and " : ", ", words[i]);
  return text;
}

std::string print_bytes(std::uint64_t bytes) {
  const auto number = static_cast<double>(bytes);
  if (number >= 0x1p40) return three_digits(number / 0x1p40, "TiB");
  if (number >= 0x1p30) return three_digits(number / 0x1p30, "GiB");
  if (number >= 0x1p20) return three_digits(number / 0x1p20, "MiB");
  return print_count(bytes, "byte");
}

}  // namespace zf
