// zf-optimizer: runs the optimizer of one training process on the CPUs that the plan gives it.

#include <cstdio>
#include <exception>
#include <new>
#include <string>
#include <vector>

#include "base/address_space.hpp"
#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/version.hpp"
#include "os/standard_streams.hpp"
#include "worker/arguments.hpp"
#include "worker/keeper.hpp"
#include "worker/worker.hpp"

namespace {

int complain(zf::Exit exit, const char* what) {
  zf::print_stderr("zf-optimizer: {}\n", what);
  return static_cast<int>(exit);
}

/// Returns the reason for a user.
const char* reason(const std::exception& error) {
  return dynamic_cast<const std::bad_alloc*>(&error) == nullptr ? error.what() : zf::out_of_memory();
}

/// Reports to the trainer what failed before its arena was used. Without a trainer, complains.
int fail_early(const std::exception& error) {
  try {
    zf::Arena arena = zf::Arena::attach(zf::FileDescriptor(zf::kWorkerArenaFd));
    zf::report_failure(arena, reason(error));
    return static_cast<int>(zf::Exit::runtime_error);
  } catch (const std::exception&) {
    return complain(zf::Exit::runtime_error, reason(error));
  }
}

}  // namespace

int main(int argc, char** argv) {
  const zf::Nanoseconds born_ns = zf::now_ns();
  try {
    const auto arguments = zf::parse_worker_arguments({argv + 1, argv + argc});
    if (arguments.help) {
      zf::print_stdout("{}", zf::worker_help());
      return 0;
    }
    if (arguments.version) {
      zf::print_stdout("zf-optimizer {}\n", zf::version());
      return 0;
    }
    zf::Arena arena = zf::Arena::attach(zf::FileDescriptor(zf::kWorkerArenaFd));
    try {
      if (arguments.keep.empty()) {
        zf::work(arena, arguments, born_ns);
      } else {
        zf::keep(arena, arguments);
      }
    } catch (const std::exception& error) {
      // The trainer reports it to its user. On stderr it would appear twice.
      zf::report_failure(arena, reason(error));
      return static_cast<int>(zf::Exit::runtime_error);
    }
    return 0;
  } catch (const zf::Error& error) {
    return complain(error.exit(), error.what());
  } catch (const std::exception& error) {
    return fail_early(error);
  }
}
