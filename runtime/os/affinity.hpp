// The CPUs a thread may run on: asked of the kernel, and set with a look at what came of it.
#pragma once

#include <sys/types.h>

#include "base/id_set.hpp"

namespace zf {

/// The affinity mask of a thread (0: the calling one), on machines of any size.
/// Throws Error(runtime_error) when there is no such thread.
CpuSet thread_affinity(pid_t tid = 0);

/// Binds the calling thread and reads the mask back. Throws Error(runtime_error) that names the CPUs the
/// kernel left out: it trims a mask outside the cpuset without a word. Precondition: cpus not empty.
void bind_this_thread(const CpuSet& cpus);

}  // namespace zf
