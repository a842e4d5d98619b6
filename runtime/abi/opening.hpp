// Turns the arguments of zf_open into everything that a worker needs: plan, CPUs, memory and arena.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "abi/keeping.hpp"
#include "abi/worker_link.hpp"
#include "base/clock.hpp"
#include "base/id_set.hpp"
#include "ipc/arena.hpp"
#include "zf_runtime.h"

namespace zf {

/// A year. No sum with it overflows.
inline constexpr std::int64_t kForeverMs = std::int64_t{1000} * 60 * 60 * 24 * 365;

/// The change of this process's masks that the caller asks for.
struct NarrowingWish {
  bool wanted = false;    ///< false: nothing, because it was not asked for or does not apply
  bool required = false;  ///< zf_open fails without it
  CpuSet home = {};
  CpuSet training = {};
};

/// The inputs of a Runtime.
struct Opening {
  WorkerStart start;
  Nanoseconds close_timeout_ns;
  Nanoseconds spin_ns;
  NarrowingWish narrowing;
  std::optional<Keeping> keeping;  ///< absent: the arena ends with this process
  std::uint32_t home_threads = 0;  ///< by ZF_BINDING; else both 0
  std::uint32_t training_threads = 0;
  Arena arena;
};

/// Prepares an opening without starting a process. Throws AbiError or Error with the status that zf_open
/// returns.
Opening prepare_opening(const zf_options& options, const std::vector<zf_group>& groups);

}  // namespace zf
