// Starts a thread of the library beside those of the program.
#pragma once

#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "base/error.hpp"
#include "base/format.hpp"
#include "base/signals_blocked.hpp"

namespace zf {

/// Returns a thread that runs `main` with all signals blocked: they go to the program's own threads. Throws
/// Error(runtime_error) "cannot start WHAT" if the machine refuses it.
template <class Thread = std::thread, class Main>
Thread start_thread(std::string_view what, Main main) {
  const SignalsBlocked blocked;
  try {
    return Thread(std::move(main));
  } catch (const std::system_error& error) {
    throw Error(Exit::runtime_error, format_text("cannot start {}: {}", what, error.what()), kTaskLimitHint);
  }
}

}  // namespace zf
