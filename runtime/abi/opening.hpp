// From the arguments of zf_open to all that a worker needs: plan, CPUs, memory, arena, each with its own
// refusal.
#pragma once

#include <cstdint>
#include <vector>

#include "base/clock.hpp"
#include "ipc/arena.hpp"
#include "worker_link.hpp"
#include "zf_runtime.h"

namespace zf {

/// A year: no sum with it overflows.
inline constexpr std::int64_t kForeverMs = std::int64_t{1000} * 60 * 60 * 24 * 365;

struct Opening {
  WorkerStart start;
  Nanoseconds close_timeout_ns;
  Nanoseconds spin_ns;
  Arena arena;
};

/// Starts nothing yet. Throws AbiError and Error, as zf_open answers.
Opening opening_of(const zf_options& options, const std::vector<zf_group>& groups);

}  // namespace zf
