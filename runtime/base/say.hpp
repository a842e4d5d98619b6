// What is said beside the result: notes, progress, complaints.
#pragma once

#include <fmt/core.h>

#include <string_view>
#include <utility>

namespace zf {

/// On stderr, at once. Where that cannot be written (a full disk, closed, a pipe that nobody reads) the words
/// are lost, and never the work: no exception, no SIGPIPE. Any thread.
void say_text(std::string_view text);

/// The same, formatted.
template <class... Values>
void say(fmt::format_string<Values...> format, Values&&... values) {
  say_text(fmt::format(format, std::forward<Values>(values)...));
}

}  // namespace zf
