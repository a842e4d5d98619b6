#include "base/plain_text.hpp"

#include <algorithm>

namespace zf {
namespace {

bool is_control(unsigned char c) { return c < 0x20 || c == 0x7f; }

}  // namespace

std::string plain_text(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return is_control(c) && c != '\n'; }, ' ');
  return text;
}

std::string one_line(std::string text) {
  std::replace_if(text.begin(), text.end(), is_control, ' ');
  return text;
}

}  // namespace zf
