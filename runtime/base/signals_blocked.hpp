// Blocks signals for the calling thread while an object lives, and takes away the signals that a failed call
// raises.
#pragma once

#include <pthread.h>
#include <signal.h>

#include <cerrno>
#include <ctime>
#include <initializer_list>

namespace zf {

/// Restores the thread's signal mask when it is destroyed. Threads that are started meanwhile inherit the
/// blocked mask, so that signals go to the threads of the program.
class SignalsBlocked {
 public:
  /// Blocks all signals.
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  /// Blocks these signals, and leaves those blocked that are.
  explicit SignalsBlocked(const sigset_t& more) { pthread_sigmask(SIG_BLOCK, &more, &before_); }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_ = {};
};

/// Calls call() while `signals` are blocked. The kernel sends such a signal to the thread of a call that
/// fails: SIGPIPE for a pipe without a reader, SIGXFSZ for a file above `ulimit -f`. A blocked signal stays
/// pending and would act later. So if call() returns false, this takes the signal, unless it was pending
/// before. Returns 0, or the errno value if call() returned false. Keeps errno.
template <class Call>
int error_without_signals(std::initializer_list<int> signals, Call call) {
  // None of these calls can fail: their arguments are sound.
  const int before = errno;
  sigset_t blocked;
  sigset_t raised;
  sigset_t pending;
  sigemptyset(&blocked);
  sigemptyset(&raised);
  sigpending(&pending);
  for (const int signal : signals) {
    sigaddset(&blocked, signal);
    if (sigismember(&pending, signal) == 0) sigaddset(&raised, signal);
  }
  int error = 0;
  {
    const SignalsBlocked held(blocked);
    if (!call()) error = errno;
    constexpr timespec kAtOnce{};
    if (error != 0) sigtimedwait(&raised, nullptr, &kAtOnce);
  }
  errno = before;
  return error;
}

}  // namespace zf
