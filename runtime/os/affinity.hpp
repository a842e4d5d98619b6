// Reads and sets the CPUs that a thread may run on.
#pragma once

#include <sys/types.h>

#include <optional>

#include "base/id_set.hpp"

namespace zf {

/// Returns the affinity mask of a thread (0: the calling one), on machines of any size. Throws
/// Error(runtime_error) if there is no such thread.
CpuSet thread_affinity(pid_t tid = 0);

/// Returns the affinity mask of a thread; absent if there is no such thread (any more). Throws
/// Error(runtime_error) if the mask cannot be read for another reason.
std::optional<CpuSet> find_thread_affinity(pid_t tid);

/// Sets the mask of a thread (0: the calling one) and returns the mask that it has then, read back: the
/// kernel silently drops CPUs outside the cpuset. Absent if there is no such thread (any more). Throws
/// Error(runtime_error) if the kernel refuses; the thread then keeps its mask. Precondition: cpus not empty.
std::optional<CpuSet> set_thread_affinity(pid_t tid, const CpuSet& cpus);

/// Returns the CPUs that the calling thread may use at most: those of its cpuset that are online. To learn
/// that, it sets the thread's mask to all CPUs, and leaves it so. Absent if the kernel or a sandbox refuses
/// that.
std::optional<CpuSet> widest_thread_affinity();

/// Binds the calling thread and reads the mask back. The kernel silently drops CPUs outside the cpuset; this
/// then throws Error(runtime_error) that names the dropped CPUs. Precondition: cpus not empty.
void bind_this_thread(const CpuSet& cpus);

}  // namespace zf
