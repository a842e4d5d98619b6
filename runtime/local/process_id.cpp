#include "local/process_id.hpp"

#include <pthread.h>
#include <unistd.h>

#include <atomic>

namespace zf {
namespace {

constinit std::atomic<std::uint64_t> g_forks = 0;

/// If the handler was refused (for want of memory), the pid still tells most children from their parents.
[[maybe_unused]] const int kRegistered =
    pthread_atfork(nullptr, nullptr, [] { g_forks.fetch_add(1, std::memory_order_relaxed); });

}  // namespace

ProcessId this_process() { return {::getpid(), g_forks.load(std::memory_order_relaxed)}; }

}  // namespace zf
