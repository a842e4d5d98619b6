// Blocks signals for the calling thread while an object lives.
#pragma once

#include <pthread.h>
#include <signal.h>

namespace zf {

/// Restores the thread's signal mask when it is destroyed. Threads that are started meanwhile inherit the
/// blocked mask, so that signals go to the threads of whoever started us.
class SignalsBlocked {
 public:
  /// Blocks all signals.
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  /// Blocks one more signal.
  explicit SignalsBlocked(int signal) {
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, signal);
    pthread_sigmask(SIG_BLOCK, &one, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_ = {};
};

}  // namespace zf
