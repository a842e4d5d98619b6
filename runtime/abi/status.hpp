// Turns exceptions into a zf_status and the text of zf_last_error. No exception leaves the ABI.
#pragma once

#include <pthread.h>

#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/error.hpp"
#include "zf_runtime.h"

namespace zf {

/// A status with its text. An Error in a call of the ABI is turned into a status by its exit code.
class AbiError : public std::runtime_error {
 public:
  AbiError(zf_status status, std::string_view what, std::string_view next = {});
  zf_status status() const { return status_; }

 private:
  zf_status status_;
};

/// Keeps the text of the current exception for this thread's zf_last_error, and returns its status. Call it
/// in a catch block.
zf_status status_of_exception() noexcept;

/// Returns the text for zf_last_error of this thread.
const char* last_error() noexcept;

/// Lets no pthread_cancel() act on this thread while it lives: that would unwind through noexcept functions,
/// which ends the process. The cancellation stays pending.
class NoCancel {
 public:
  NoCancel() noexcept { ::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  ~NoCancel() { ::pthread_setcancelstate(before_, nullptr); }
  NoCancel(const NoCancel&) = delete;
  NoCancel& operator=(const NoCancel&) = delete;

 private:
  int before_ = PTHREAD_CANCEL_ENABLE;
};

/// Runs the body of a call of the ABI and returns the status. The body returns false for ZF_TIMEOUT, and
/// throws for all others but ZF_OK. The thread cannot be cancelled meanwhile.
template <class Body>
zf_status guarded(Body&& body) noexcept {
  const NoCancel no_cancel;
  try {
    if constexpr (std::is_same_v<decltype(body()), bool>) return body() ? ZF_OK : ZF_TIMEOUT;
    body();
    return ZF_OK;
  } catch (...) {
    return status_of_exception();
  }
}

}  // namespace zf
