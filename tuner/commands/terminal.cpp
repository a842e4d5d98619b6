#include "commands/terminal.hpp"

#include <sys/ioctl.h>

#include <charconv>
#include <cstdlib>
#include <string_view>

namespace zf {
namespace {

constexpr std::size_t kUsualColumns = 80;
constexpr std::size_t kFewestColumns = 40;

}  // namespace

std::size_t terminal_columns(int stream) {
  winsize size = {};
  std::size_t columns = 0;
  if (::ioctl(stream, TIOCGWINSZ, &size) == 0 && size.ws_col != 0) {
    columns = size.ws_col;
  } else if (const char* const variable = std::getenv("COLUMNS"); variable != nullptr) {
    const std::string_view text = variable;
    std::from_chars(text.data(), text.data() + text.size(), columns);
  }
  return columns < kFewestColumns ? kUsualColumns : columns;
}

}  // namespace zf
