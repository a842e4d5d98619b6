#include "worker/trainer_watch.hpp"

#include <fmt/core.h>
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <thread>
#include <utility>

#include "base/error.hpp"
#include "ipc/child.hpp"

namespace zf {
namespace {

/// True when the trainer has ended.
bool wait_for_end(int pidfd, int timeout_ms) {
  pollfd ended = {.fd = pidfd, .events = POLLIN, .revents = 0};
  const int ready = poll(&ended, 1, timeout_ms);
  if (ready < 0 && errno != EINTR) throw_errno(errno, "poll on the trainer's pidfd");
  if (ready > 0 && (ended.revents & POLLIN) == 0) throw lost_pidfd(getppid());
  return ready > 0;
}

void watch(const FileDescriptor& pidfd) noexcept {
  pthread_setname_np(pthread_self(), "zf-watch");
  // No deadline: the life of the trainer is what this waits for.
  while (!wait_for_end(pidfd.get(), -1)) {
  }
  // Nothing to say and no one to say it to. The arena goes with the last process that maps it.
  _exit(0);
}

}  // namespace

void watch_trainer(FileDescriptor pidfd) {
  // It may have ended before we were born: then this answers at once.
  if (wait_for_end(pidfd.get(), 0)) _exit(0);
  try {
    std::thread([held = std::move(pidfd)] { watch(held); }).detach();
  } catch (const std::system_error& error) {
    throw Error(Exit::runtime_error, fmt::format("the thread that watches the trainer: {}", error.what()),
                "look at ulimit -u and the cgroup's pids.max");
  }
}

}  // namespace zf
