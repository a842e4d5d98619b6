// Binds this process as a launch says.
#pragma once

#include "launch/launch.hpp"

namespace zf {

/// Binds this process, reads the binding back, and sets the memory policy and the variables. Throws
/// Error(runtime_error) if the binding did not take effect; with `force` adds a note instead. A refused
/// memory policy is only a note, because first touch still places most pages well. Precondition: the process
/// has one thread.
void apply_launch(Launch& launch, bool force);

}  // namespace zf
