// Makes text from a format string and values, in fmt's syntax.
//
// The core of fmt is compiled once, into format.cpp, so what we ship needs no libfmt.so: its name changes
// with each major version. No other source may call what fmt compiles apart from its headers, such as
// fmt::format() or fmt::join(): it would not link. (With fmt as headers alone everywhere, a clean build
// took 2.5 times the CPU time.)
#pragma once

#include <fmt/core.h>

#include <string>
#include <string_view>
#include <utility>

namespace zf {

/// Returns the text that a format string and type-erased values make. Call format_text() instead.
std::string format_erased(fmt::string_view format, fmt::format_args values);

/// Returns the text that a format string and values make. The compiler checks the format string against the
/// values.
template <class... Values>
std::string format_text(fmt::format_string<Values...> format, Values&&... values) {
  return format_erased(format, fmt::make_format_args(values...));
}

/// Returns the texts of all items, with the separator between two of them.
template <class Items>
std::string join_text(const Items& items, std::string_view separator) {
  std::string text;
  bool first = true;
  for (const auto& item : items) {
    if (!std::exchange(first, false)) text += separator;
    text += format_text("{}", item);
  }
  return text;
}

}  // namespace zf
