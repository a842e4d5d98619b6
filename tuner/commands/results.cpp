#include "commands/results.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include "base/text.hpp"
#include "commands/shared_arguments.hpp"
#include "commands/terminal.hpp"
#include "os/standard_streams.hpp"
#include "report/explain.hpp"
#include "text/wrap.hpp"

namespace zf {
namespace {

/// Returns whether notes on stderr stand above what is written to `stream`.
bool is_below_notes(int stream) {
  struct stat results = {};
  struct stat notes = {};
  return ::fstat(stream, &results) == 0 && ::fstat(STDERR_FILENO, &notes) == 0 &&
         results.st_dev == notes.st_dev && results.st_ino == notes.st_ino;
}

}  // namespace

void print_result_line(std::string_view text) {
  print_stdout_text(wrapped(one_line(text), list_columns(STDOUT_FILENO)));
}

Results::Results(bool stdout_is_taken) : stream_(stdout_is_taken ? STDERR_FILENO : STDOUT_FILENO) {}

void Results::print(std::string_view text) const {
  stream_ == STDOUT_FILENO ? print_stdout_text(text) : print_stderr_text(text);
}

void Results::print_wrapped(std::string_view text, const Arguments& arguments) const {
  print(wrapped(text, page_width(arguments, stream_)));
}

void Results::explain(const Plan& plan, const Arguments& arguments) const {
  if (is_below_notes(stream_)) print("\n");
  print(zf::explain(plan, page_width(arguments, stream_)));
}

}  // namespace zf
