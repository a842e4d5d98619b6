// Where the arena's memory lies: asked for before it is given out, looked at afterwards.
#pragma once

#include <string>

#include "ipc/arena.hpp"
#include "worker/arguments.hpp"

namespace zf {

/// What the machine refused and the plan can do without, for zf_stats: containers refuse memory policies, and
/// then first touch alone decides. Texts joined by "; ".
using Notes = std::string;

/// Before the pool is made and pages are given out: the plan's nodes for the arrays and for the threads to
/// come, and huge pages where wished for. Throws Error(runtime_error) when what must be is refused.
Notes prepare_memory(Arena& arena, const WorkerArguments& arguments);

/// When all pages are given out: locks them where wished for; looks, by move_pages, on which nodes they lie,
/// and how much of them is huge; writes that to the arena's statistics, and the notes with it. Throws
/// likewise.
void settle_memory(Arena& arena, const WorkerArguments& arguments, Notes notes);

}  // namespace zf
