// The three standard streams: descriptors 0, 1 and 2 kept free of other files, results on standard output,
// and notes on standard error.
#pragma once

#include <string_view>
#include <utility>

#include "base/format.hpp"

namespace zf {

/// Opens /dev/null in the place of every standard stream that the caller closed. Otherwise the next file that
/// is opened would get that number, and would receive the text meant for the stream. The descriptors refuse
/// to be read (0) or written (1, 2), as if the stream were still closed, and are closed on exec. Without
/// /dev/null nothing is opened. Call it first in main().
void guard_standard_streams();

/// Writes text to stderr at once: notes, progress, complaints. If stderr cannot be written (a full disk,
/// closed, a pipe without a reader) the text is lost, but never the work: no exception, no SIGPIPE.
/// Thread-safe.
void print_stderr_text(std::string_view text);

/// Formats and writes in the same way.
template <class... Values>
void print_stderr(fmt::format_string<Values...> format, Values&&... values) {
  print_stderr_text(format_text(format, std::forward<Values>(values)...));
}

/// Writes text to stdout, buffered: results. If stdout cannot be written (a full disk, closed, a pipe that
/// has no reader), this text and all later text is lost, but never the work: no exception, no SIGPIPE.
/// flush_stdout() then returns the reason. Thread-safe.
void print_stdout_text(std::string_view text);

/// Formats and writes in the same way.
template <class... Values>
void print_stdout(fmt::format_string<Values...> format, Values&&... values) {
  print_stdout_text(format_text(format, std::forward<Values>(values)...));
}

/// Writes what is buffered for stdout. Returns 0, or the errno value of the first write to stdout that failed
/// since the start. main() calls it last. Call it also before a note on stderr that belongs below the
/// results: both may be one terminal.
int flush_stdout();

}  // namespace zf
