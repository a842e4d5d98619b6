#include "os/standard_streams.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <initializer_list>

#include "base/signals_blocked.hpp"

namespace zf {

void guard_standard_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(stream, F_GETFD) >= 0) continue;
    // open() takes the lowest free number. That is this stream: the lower ones have been checked before.
    if (::open("/dev/null", (stream == STDIN_FILENO ? O_WRONLY : O_RDONLY) | O_CLOEXEC) < 0) return;
  }
}

void print_stderr_text(std::string_view text) {
  // SIGPIPE is blocked for this thread and this write only: a program that is exec'd later should die of a
  // broken pipe as usual. None of these calls can fail: their arguments are sound.
  const int error = errno;
  sigset_t broken_pipe;
  sigset_t pending;
  ::sigemptyset(&broken_pipe);
  ::sigaddset(&broken_pipe, SIGPIPE);
  ::sigpending(&pending);
  {
    const SignalsBlocked blocked(SIGPIPE);
    const bool written = std::fwrite(text.data(), 1, text.size(), stderr) == text.size();
    if (!written && ::sigismember(&pending, SIGPIPE) == 0) {
      constexpr timespec kAtOnce{};
      ::sigtimedwait(&broken_pipe, nullptr, &kAtOnce);
    }
  }
  errno = error;
}

void print_stdout_text(std::string_view text) {
  // ferror() keeps a failure until the end of the program.
  static_cast<void>(std::fwrite(text.data(), 1, text.size(), stdout));
}

}  // namespace zf
