#include "base/error.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <system_error>

namespace zf {
namespace {

/// One line, whatever was quoted from a file or an argument.
std::string one_line(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return c < 0x20; }, ' ');
  return text;
}

}  // namespace

Error::Error(Exit exit, std::string_view what, std::string_view next)
    : std::runtime_error(one_line(next.empty() ? std::string(what) : fmt::format("{}; {}", what, next))),
      exit_(exit) {}

void throw_errno(int errno_value, std::string_view what, std::string_view next) {
  throw Error(Exit::runtime_error, fmt::format("{}: {}", what, errno_text(errno_value)), next);
}

std::string errno_text(int errno_value) { return std::generic_category().message(errno_value); }

}  // namespace zf
