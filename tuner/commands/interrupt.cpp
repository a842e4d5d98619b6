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
  struct sigaction action = {};
  action.sa_handler = on_signal;
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);  // a second signal ends the process
  sigemptyset(&action.sa_mask);
  checked(::sigaction(signal, &action, &old), "sigaction");
}

}  // namespace

InterruptWatch::InterruptWatch() {
  caught.store(0);
  handle(SIGINT, old_int_);
  handle(SIGTERM, old_term_);
}

InterruptWatch::~InterruptWatch() {
  ::sigaction(SIGINT, &old_int_, nullptr);
  ::sigaction(SIGTERM, &old_term_, nullptr);
}

int InterruptWatch::signal() const { return caught.load(); }

}  // namespace zf
