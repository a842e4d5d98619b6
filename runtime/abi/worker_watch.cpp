#include "worker_watch.hpp"

#include <fmt/core.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <exception>
#include <system_error>
#include <utility>

#include "status.hpp"

namespace zf {
namespace {

constexpr int kForever = -1;

/// The trainer's handlers run on the trainer's own threads.
class AllSignalsBlocked {
 public:
  AllSignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~AllSignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  AllSignalsBlocked(const AllSignalsBlocked&) = delete;
  AllSignalsBlocked& operator=(const AllSignalsBlocked&) = delete;

 private:
  sigset_t before_ = {};
};

/// True when one of them is readable, or has no file behind it any more.
template <std::size_t N>
bool wait_for_any(std::array<pollfd, N>& files, int timeout_ms) {
  const int ready = poll(files.data(), files.size(), timeout_ms);
  if (ready < 0 && errno != EINTR) throw_errno(errno, "poll on the optimizer's pidfd");
  return ready > 0;
}

}  // namespace

WorkerWatch::WorkerWatch(WorkerLink& worker, std::function<bool()> on_death)
    : worker_(worker),
      on_death_(std::move(on_death)),
      stop_(static_cast<int>(checked(eventfd(0, EFD_CLOEXEC), "eventfd"))),
      pidfd_(worker_.pidfd()) {
  const AllSignalsBlocked blocked;
  try {
    thread_ = std::thread([this] { watch(); });
  } catch (const std::system_error& error) {
    throw Refusal(ZF_ERROR_SYSTEM, fmt::format("the thread that watches the optimizer: {}", error.what()),
                  "look at ulimit -u and the cgroup's pids.max");
  }
}

WorkerWatch::~WorkerWatch() { stop(); }

void WorkerWatch::stop() {
  const std::lock_guard lock(mutex_);
  if (!thread_.joinable()) return;
  eventfd_write(stop_.get(), 1);
  thread_.join();
}

bool WorkerWatch::is_stopped_within(Nanoseconds time) const {
  std::array files{pollfd{.fd = stop_.get(), .events = POLLIN, .revents = 0}};
  return wait_for_any(files, static_cast<int>(time / kMillisecondNs));
}

WorkerWatch::Event WorkerWatch::next_event() {
  for (;;) {
    // No deadline once it is ready: the life of the worker is what this waits for.
    const auto left = worker_.time_to_be_ready();
    const int timeout_ms =
        left ? static_cast<int>(std::clamp<Nanoseconds>(*left, kLookNs, 60 * kSecondNs) / kMillisecondNs)
             : kForever;
    std::array files{pollfd{.fd = stop_.get(), .events = POLLIN, .revents = 0},
                     pollfd{.fd = pidfd_.get(), .events = POLLIN, .revents = 0}};
    if (wait_for_any(files, timeout_ms)) {
      if (files[0].revents != 0) return Event::stopped;
      if ((files[1].revents & POLLIN) == 0) throw lost_pidfd(worker_.pid());
      return Event::death;
    }
    if (left && *left <= 0) return Event::late;
  }
}

void WorkerWatch::watch() noexcept {
  pthread_setname_np(pthread_self(), "zf-watch");
  for (bool goes_on = true; goes_on;) {
    try {
      switch (next_event()) {
        case Event::stopped:
          return;
        case Event::death:
          goes_on = on_death_();
          if (goes_on) pidfd_ = worker_.pidfd();
          break;
        case Event::late:
          worker_.give_up_start();
          break;
      }
    } catch (const std::exception&) {
      // Descriptors or processes are short, perhaps not for long. Whoever waits meets the same, and is told.
      goes_on = !is_stopped_within(kSecondNs);
    }
  }
}

}  // namespace zf
