// Keeps an arena beyond the end of its trainer.
//
// This is another process than the one that steps: that one ends with its trainer, at any instruction, and
// the next trainer's finishes the step, as after every death (docs/recovery.md).
#pragma once

#include "ipc/arena.hpp"
#include "worker/arguments.hpp"

namespace zf {

/// Forks a process with a session of its own that is no descendant of the trainer, and returns when it is
/// there. That process holds the arena, which the trainer has that started it, and listens in
/// arguments.keep_folder (ipc/keep_channel.hpp). When no trainer has the arena any more, it is the first that
/// the kernel ends if memory runs out, and it ends itself after arguments.keep_s seconds, or at once if no
/// step was begun. It also ends when it is asked to, and on SIGTERM while no trainer has the arena. It
/// removes its socket then. Throws Error(runtime_error) if it cannot listen or be forked. Call it while there
/// is one thread.
void keep(const Arena& arena, const WorkerArguments& arguments);

}  // namespace zf
