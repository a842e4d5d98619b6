#include "os/standard_streams.hpp"

#include <fcntl.h>
#include <stdio_ext.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <initializer_list>

#include "base/signals_blocked.hpp"

namespace zf {
namespace {

/// The errno value of the first write to stdout that failed; 0 if none did. ferror() would not say why.
std::atomic<int> stdout_error = 0;

/// Calls write() with SIGPIPE blocked for this thread and this call only: a program that is exec'd later
/// should die of a broken pipe as usual. Returns 0, or the errno value if write() returned false. Keeps
/// errno.
template <class Write>
int without_sigpipe(Write write) {
  // None of these calls can fail: their arguments are sound.
  const int before = errno;
  sigset_t broken_pipe;
  sigset_t pending;
  ::sigemptyset(&broken_pipe);
  ::sigaddset(&broken_pipe, SIGPIPE);
  ::sigpending(&pending);
  int error = 0;
  {
    const SignalsBlocked blocked(SIGPIPE);
    if (!write()) error = errno;
    if (error != 0 && ::sigismember(&pending, SIGPIPE) == 0) {
      constexpr timespec kAtOnce{};
      ::sigtimedwait(&broken_pipe, nullptr, &kAtOnce);
    }
  }
  errno = before;
  return error;
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
  without_sigpipe([&] { return std::fwrite(text.data(), 1, text.size(), stderr) == text.size(); });
}

void print_stdout_text(std::string_view text) {
  if (stdout_error != 0) return;  // more would stand behind a gap
  remember_stdout_error(
      without_sigpipe([&] { return std::fwrite(text.data(), 1, text.size(), stdout) == text.size(); }));
}

int flush_stdout() {
  if (stdout_error == 0) remember_stdout_error(without_sigpipe([] { return std::fflush(stdout) == 0; }));
  return stdout_error;
}

}  // namespace zf
