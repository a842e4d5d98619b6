// Exceptions end here: what a call throws becomes a zf_status and the text behind zf_last_error.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "zf_runtime.h"

namespace zf {

/// A status with its text. Error's that pass a call of the ABI become one, by their exit code.
class AbiError : public std::runtime_error {
 public:
  AbiError(zf_status status, std::string_view what, std::string_view next = {});
  zf_status status() const { return status_; }

 private:
  zf_status status_;
};

/// Keeps the text of the present exception for zf_last_error of this thread; its status. Call in a catch.
zf_status status_of_exception() noexcept;

/// zf_last_error of this thread.
const char* last_error() noexcept;

/// Runs the body of a call of the ABI. It returns nothing, and throws what is not ZF_OK.
template <class Body>
zf_status guarded(Body&& body) noexcept {
  try {
    body();
    return ZF_OK;
  } catch (...) {
    return status_of_exception();
  }
}

}  // namespace zf
