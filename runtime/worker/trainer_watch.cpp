#include "worker/trainer_watch.hpp"

#include <poll.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <utility>

#include "base/error.hpp"
#include "base/start_thread.hpp"
#include "ipc/child.hpp"

namespace zf {
namespace {

enum class Seen { nothing, end, lost };

/// Waits for the end of the trainer, or until its pidfd is seen to be none. A poll that lacks memory sees
/// nothing.
Seen wait_for_end(int pidfd, int timeout_ms) {
  pollfd ended = {.fd = pidfd, .events = POLLIN, .revents = 0};
  if (poll(&ended, 1, timeout_ms) <= 0) return Seen::nothing;
  return (ended.revents & POLLIN) != 0 ? Seen::end : Seen::lost;
}

void watch(const FileDescriptor& pidfd) noexcept {
  pthread_setname_np(pthread_self(), "zf-trainer");
  // There is no deadline: the trainer may live for any time.
  for (;;) {
    switch (wait_for_end(pidfd.get(), -1)) {
      case Seen::end:
        // No process is left to report to. The arena is freed with the last process that maps it.
        _exit(0);
      case Seen::lost:
        // This process might outlive the trainer for ever. A trainer that lives starts another one.
        _exit(static_cast<int>(Exit::runtime_error));
      case Seen::nothing:
        usleep(100'000);
    }
  }
}

}  // namespace

void end_with_starter(int starter) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // where a sandbox refuses it, the trainer's pidfd is left
  // The thread may have ended before the line above. A trainer in another PID namespace (its number is 0
  // here) gives its threads other numbers.
  if (getppid() != 0 && ::kill(starter, 0) != 0 && errno == ESRCH) _exit(0);
}

void watch_trainer(FileDescriptor pidfd) {
  // The trainer may have ended before this process started; then this returns at once.
  const Seen now = wait_for_end(pidfd.get(), 0);
  if (now == Seen::end) _exit(0);
  if (now == Seen::lost) throw lost_pidfd(getppid());
  start_thread("the thread that watches the trainer", [held = std::move(pidfd)] { watch(held); }).detach();
}

}  // namespace zf
