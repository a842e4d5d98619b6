#include "abi/worker_watch.hpp"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <exception>
#include <utility>

#include "abi/status.hpp"
#include "base/error.hpp"
#include "base/format.hpp"
#include "base/start_thread.hpp"

namespace zf {
namespace {

/// The longest time of one poll. A program that closes descriptors which it did not open may have closed
/// ours, and then nothing else would end the poll.
constexpr Nanoseconds kLongestPollNs = kSecondNs;

FileDescriptor make_eventfd() {
  const int fd = eventfd(0, EFD_CLOEXEC);
  if (fd < 0) throw_errno(errno, "eventfd", descriptor_hint(errno));
  return FileDescriptor(fd);
}

}  // namespace

WorkerWatch::WorkerWatch(WorkerLink& worker, std::function<WorkerLink::Restart()> on_death)
    : worker_(worker), on_death_(std::move(on_death)), stop_(make_eventfd()), pidfd_(worker_.pidfd()) {
  thread_ = start_thread("the thread that watches the optimizer", [this] { watch(); });
}

WorkerWatch::~WorkerWatch() { stop(); }

void WorkerWatch::stop() {
  const std::lock_guard lock(mutex_);
  if (!thread_.joinable()) return;
  stopping_.store(true, std::memory_order_seq_cst);
  eventfd_write(stop_.get(), 1);  // if this fails, the present poll still ends after kLongestPollNs
  thread_.join();
}

short WorkerWatch::wait_for(int worker, Nanoseconds time) {
  std::array files{pollfd{.fd = stop_lost_ ? -1 : stop_.get(), .events = POLLIN, .revents = 0},
                   pollfd{.fd = worker, .events = POLLIN, .revents = 0}};
  const int ready = poll(files.data(), files.size(), static_cast<int>(time / kMillisecondNs));
  if (ready < 0 && errno != EINTR) throw_errno(errno, "poll on the optimizer's pidfd");
  // stop_ is readable, but no call has asked us to stop: the program closed it, or it is another file now.
  if (files[0].revents != 0 && !stopping_.load(std::memory_order_seq_cst)) stop_lost_ = true;
  return files[1].revents;
}

WorkerWatch::Event WorkerWatch::next_event() {
  while (!stopping_.load(std::memory_order_seq_cst)) {
    const auto left = worker_.time_to_be_ready();
    const short found = wait_for(
        pidfd_.get(), left ? std::clamp<Nanoseconds>(*left, kPollNs, kLongestPollNs) : kLongestPollNs);
    if ((found & POLLIN) != 0) return Event::death;
    if (found != 0) throw lost_pidfd(worker_.pid());
    if (left && *left <= 0) return Event::late;
  }
  return Event::stopped;
}

void WorkerWatch::retry_later() {
  try {
    wait_for(-1, kLongestPollNs);
    pidfd_ = worker_.pidfd();  // ours may be the descriptor that was lost
  } catch (const std::exception&) {
    // The next poll then fails again.
  }
}

bool WorkerWatch::after_death() {
  for (;;) {
    const WorkerLink::Restart restart = on_death_();
    if (restart == WorkerLink::Restart::never) return false;
    if (restart == WorkerLink::Restart::done) break;
    pause();
    if (stopping_.load(std::memory_order_seq_cst)) return false;
  }
  pidfd_ = worker_.pidfd();
  return true;
}

void WorkerWatch::pause() {
  while (!stopping_.load(std::memory_order_seq_cst)) {
    const Nanoseconds left = worker_.restart_time() - now_ns();
    if (left <= 0) return;
    wait_for(-1, std::min(left + kMillisecondNs, kLongestPollNs));  // poll() cuts a part of a millisecond off
  }
}

void WorkerWatch::watch() noexcept {
  pthread_setname_np(pthread_self(), "zf-watch");
  for (bool goes_on = true; goes_on && !stopping_.load(std::memory_order_seq_cst);) {
    try {
      switch (next_event()) {
        case Event::stopped:
          return;
        case Event::death:
          goes_on = after_death();
          break;
        case Event::late:
          worker_.give_up_start();
          break;
      }
    } catch (const std::exception&) {
      // There are too few descriptors or processes, perhaps not for long. The next wait gets the same error
      // and reports it.
      retry_later();
    }
  }
}

}  // namespace zf
