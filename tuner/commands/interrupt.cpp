#include "commands/interrupt.hpp"

#include <atomic>

#include "base/error.hpp"

namespace zf {
namespace {

// Global, because a signal handler has no other way to reach it.
std::atomic<int> caught = 0;
static_assert(std::atomic<int>::is_always_lock_free, "anything else is not safe in a signal handler");

void on_signal(int signal) { caught.store(signal); }

void handle(int signal, struct sigaction& old) {
  checked(::sigaction(signal, nullptr, &old), "sigaction");
  if (old.sa_handler == SIG_IGN) return;
  struct sigaction action = {};
  action.sa_handler = on_signal;
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);  // a second signal ends the process
  sigemptyset(&action.sa_mask);
  checked(::sigaction(signal, &action, nullptr), "sigaction");
}

}  // namespace

InterruptWatch::InterruptWatch() {
  caught.store(0);
  for (std::size_t i = 0; i < kSignals.size(); ++i) handle(kSignals[i], old_[i]);
}

InterruptWatch::~InterruptWatch() {
  for (std::size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], &old_[i], nullptr);
}

int InterruptWatch::signal() const { return caught.load(); }

}  // namespace zf
