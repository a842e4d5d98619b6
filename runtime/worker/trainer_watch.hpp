// Ends this process when the trainer ends.
#pragma once

#include "base/file_descriptor.hpp"

namespace zf {

/// Starts a thread, with the calling thread's CPU mask, that sleeps on the trainer's pidfd. When the trainer
/// has ended, it ends this process at once (_exit), whatever the other threads do. That includes a trainer
/// that was killed, and one whose forked child lives on and holds its descriptors. Throws
/// Error(runtime_error) if `pidfd` is not a pidfd or the thread cannot be started.
void watch_trainer(FileDescriptor pidfd);

}  // namespace zf
