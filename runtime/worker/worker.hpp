// Runs a worker from its start to its end.
#pragma once

#include "base/clock.hpp"
#include "ipc/arena.hpp"
#include "worker/arguments.hpp"

namespace zf {

/// Binds this thread, builds the pool, places the memory, reports `ready`, serves until it is asked to stop,
/// and reports `left`. Throws errors that occur before `ready`; afterwards nothing is thrown. `born_ns` is
/// used for the statistics.
void work(Arena& arena, const WorkerArguments& arguments, Nanoseconds born_ns);

/// Reports why the worker cannot go on. zf_open returns the text to its caller.
void report_failure(Arena& arena, std::string_view what);

}  // namespace zf
