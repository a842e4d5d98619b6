#include "os/standard_streams.hpp"

#include <fcntl.h>
#include <stdio_ext.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <initializer_list>

#include "base/signals_blocked.hpp"

namespace zf {
namespace {

/// The errno value of the first write to stdout that failed; 0 if none did. ferror() would not say why.
std::atomic<int> stdout_error = 0;

/// Calls write(). A broken pipe, or a file above `ulimit -f`, is an error for this call only: a program that
/// is exec'd later should die of the signal as usual. Returns 0, or the errno value if write() returned
/// false. Keeps errno.
template <class Write>
int without_signals(Write write) {
  return error_without_signals({SIGPIPE, SIGXFSZ}, write);
}

/// Remembers why stdout could not be written, and drops what is still buffered: exit() would try it again.
void remember_stdout_error(int error) {
  if (error == 0) return;
  int none = 0;
  stdout_error.compare_exchange_strong(none, error);
  ::__fpurge(stdout);
}

}  // namespace

void guard_standard_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(stream, F_GETFD) >= 0) continue;
    // open() takes the lowest free number. That is this stream: the lower ones have been checked before.
    if (::open("/dev/null", (stream == STDIN_FILENO ? O_WRONLY : O_RDONLY) | O_CLOEXEC) < 0) return;
  }
}

void print_stderr_text(std::string_view text) {
  without_signals([&] { return std::fwrite(text.data(), 1, text.size(), stderr) == text.size(); });
}

void print_stdout_text(std::string_view text) {
  if (stdout_error != 0) return;  // more would stand behind a gap
  remember_stdout_error(
      without_signals([&] { return std::fwrite(text.data(), 1, text.size(), stdout) == text.size(); }));
}

int flush_stdout() {
  if (stdout_error == 0) remember_stdout_error(without_signals([] { return std::fflush(stdout) == 0; }));
  return stdout_error;
}

}  // namespace zf
