#include "commands/terminal.hpp"

#include <sys/ioctl.h>

#include <charconv>
#include <cstdlib>
#include <string_view>

#include "text/table.hpp"

namespace zf {
namespace {

constexpr std::size_t kUsualColumns = 80;
constexpr std::size_t kFewestColumns = 40;

/// Returns the width of the terminal behind a descriptor; 0 if it is not a terminal or does not tell.
std::size_t window_columns(int stream) {
  winsize size = {};
  return ::ioctl(stream, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

}  // namespace

std::size_t terminal_columns(int stream) {
  std::size_t columns = window_columns(stream);
  if (const char* const variable = std::getenv("COLUMNS"); columns == 0 && variable != nullptr) {
    const std::string_view text = variable;
    std::from_chars(text.data(), text.data() + text.size(), columns);
  }
  return columns < kFewestColumns ? kUsualColumns : columns;
}

std::size_t list_columns(int stream) {
  const std::size_t columns = window_columns(stream);
  return columns < kFewestColumns ? kUnlimitedWidth : columns;
}

}  // namespace zf
