#include "base/say.hpp"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <ctime>

namespace zf {

void say_text(std::string_view text) {
  // For this thread and this write alone: what is exec'd later should die of a broken pipe as usual. None of
  // these calls can fail: their arguments are sound.
  const int error = errno;
  sigset_t broken_pipe;
  sigset_t before;
  sigset_t pending;
  ::sigemptyset(&broken_pipe);
  ::sigaddset(&broken_pipe, SIGPIPE);
  ::sigpending(&pending);
  ::pthread_sigmask(SIG_BLOCK, &broken_pipe, &before);
  const bool written = std::fwrite(text.data(), 1, text.size(), stderr) == text.size();
  if (!written && ::sigismember(&pending, SIGPIPE) == 0) {
    constexpr timespec kAtOnce{};
    ::sigtimedwait(&broken_pipe, nullptr, &kAtOnce);
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  errno = error;
}

}  // namespace zf
