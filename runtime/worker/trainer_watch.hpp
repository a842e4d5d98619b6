// Ends this process when the trainer ends.
#pragma once

#include "base/file_descriptor.hpp"

namespace zf {

/// Starts a thread that sleeps on the trainer's pidfd, with the calling thread's CPU mask, and ends the
/// process at once (_exit, whatever the other threads do) when the trainer has ended: also when it was
/// killed, and also when a child that it forked lives on and holds its descriptors.
/// Throws Error(runtime_error) when `pidfd` is none or the thread cannot be made.
void watch_trainer(FileDescriptor pidfd);

}  // namespace zf
