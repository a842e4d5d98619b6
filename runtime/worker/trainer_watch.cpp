#include "worker/trainer_watch.hpp"

#include <poll.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <system_error>
#include <thread>
#include <utility>

#include "base/error.hpp"
#include "base/format.hpp"
#include "ipc/child.hpp"

namespace zf {
namespace {

/// Waits for the end of the trainer. Returns whether it has ended.
bool wait_for_end(int pidfd, int timeout_ms) {
  pollfd ended = {.fd = pidfd, .events = POLLIN, .revents = 0};
  const int ready = poll(&ended, 1, timeout_ms);
  if (ready < 0 && errno != EINTR) throw_errno(errno, "poll on the trainer's pidfd");
  if (ready > 0 && (ended.revents & POLLIN) == 0) throw lost_pidfd(getppid());
  return ready > 0;
}

void watch(const FileDescriptor& pidfd) noexcept {
  pthread_setname_np(pthread_self(), "zf-trainer");
  // There is no deadline: the trainer may live for any time. A poll that lacks memory may work later.
  for (bool has_ended = false; !has_ended;) {
    try {
      has_ended = wait_for_end(pidfd.get(), -1);
    } catch (const Error&) {
      usleep(100'000);
    }
  }
  // Nobody is left to report to. The arena is freed with the last process that maps it.
  _exit(0);
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
  if (wait_for_end(pidfd.get(), 0)) _exit(0);
  try {
    std::thread([held = std::move(pidfd)] { watch(held); }).detach();
  } catch (const std::system_error& error) {
    throw Error(Exit::runtime_error,
                format_text("cannot start the thread that watches the trainer: {}", error.what()),
                kTaskLimitHint);
  }
}

}  // namespace zf
