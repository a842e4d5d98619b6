// The life of a worker, from its birth to its end.
#pragma once

#include "base/clock.hpp"
#include "ipc/arena.hpp"
#include "worker/arguments.hpp"

namespace zf {

/// Binds, builds the pool, places the memory, says ready, serves until told to stop, says so.
/// Throws what goes wrong before `ready`; nothing is thrown after. `born_ns` is for the statistics.
void work(Arena& arena, const WorkerArguments& arguments, Nanoseconds born_ns);

/// The last word of a worker that cannot go on: zf_open hands it to its caller.
void report_failure(Arena& arena, std::string_view what);

}  // namespace zf
