#include "base/text.hpp"

#include <algorithm>

namespace zf {
namespace {

unsigned char byte(char c) { return static_cast<unsigned char>(c); }

/// True for U+0000 to U+001F and U+007F.
bool is_control(char c) { return byte(c) < 0x20 || c == 0x7f; }

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

}  // namespace zf
