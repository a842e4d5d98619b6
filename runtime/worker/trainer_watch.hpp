// Ends this process when the trainer ends or becomes another program.
#pragma once

#include "base/file_descriptor.hpp"

namespace zf {

/// Asks the kernel for SIGKILL when the trainer's thread `starter`, which started this process, ends. The
/// library keeps that thread as long as its handle. It also ends when the trainer calls execve(), and the
/// signal reaches a process that is stopped. Ends this process if the thread has ended already.
void end_with_starter(int starter);

/// Starts a thread, with the calling thread's CPU mask, that sleeps on the trainer's pidfd. When the trainer
/// has ended, it ends this process at once (_exit), whatever the other threads do. That includes a trainer
/// that was killed, and one with a forked child that lives on and holds its descriptors. If the pidfd is
/// lost, this process ends, too, with Exit::runtime_error. Throws Error(runtime_error) if `pidfd` is not a
/// pidfd or the thread cannot be started.
void watch_trainer(FileDescriptor pidfd);

}  // namespace zf
