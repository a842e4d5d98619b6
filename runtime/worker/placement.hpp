// Places the arena's memory: sets the policies before pages are allocated, and checks the pages afterwards.
#pragma once

#include <string>

#include "ipc/arena.hpp"
#include "worker/arguments.hpp"

namespace zf {

/// The requests that the machine refused, as texts joined by "; ", for zf_stats. Containers refuse memory
/// policies, for example; then first touch alone decides.
using Notes = std::string;

/// Sets the plan's nodes for the arrays and for the threads that will be started, and asks for huge pages if
/// requested. Call it before the pool is made and pages are allocated. Throws Error(runtime_error) if
/// something required is refused.
Notes prepare_memory(Arena& arena, const WorkerArguments& arguments);

/// Locks the pages if requested, and finds out on which nodes they lie (move_pages) and how much of them is
/// huge. Writes that and the notes to the arena's statistics. Call it after all pages are allocated. Throws
/// as prepare_memory() does.
void settle_memory(Arena& arena, const WorkerArguments& arguments, Notes notes);

}  // namespace zf
