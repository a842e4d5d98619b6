// Reads and sets the CPUs that a thread may run on.
#pragma once

#include <sys/types.h>

#include "base/id_set.hpp"

namespace zf {

/// Returns the affinity mask of a thread (0: the calling one), on machines of any size. Throws
/// Error(runtime_error) if there is no such thread.
CpuSet thread_affinity(pid_t tid = 0);

/// Binds the calling thread and reads the mask back. The kernel silently drops CPUs outside the cpuset; this
/// then throws Error(runtime_error) that names the dropped CPUs. Precondition: cpus not empty.
void bind_this_thread(const CpuSet& cpus);

}  // namespace zf
