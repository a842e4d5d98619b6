// Runs one rank's part of a visit: its pool, its memory and its synthetic training, in a process of its own.
#pragma once

#include <cstdint>
#include <optional>

#include "engine/isa.hpp"
#include "homes/split.hpp"
#include "measure/process_barrier.hpp"
#include "plan/evidence.hpp"

namespace zf {

/// The work of every rank, the same for all splits.
struct RankWork {
  std::uint64_t elements = 0;  ///< fp32 parameters that the optimizer steps over
  std::optional<TrainingDemand>
      training;  ///< of one training step, already cut down; without it, the optimizer runs alone
  int update_interval = 1;
  Isa isa = Isa::scalar;
};

/// Sets up the rank and runs rounds in step with the other ranks. Writes the reading of each round into
/// `readings`, which must have a place for every round. One round is one period, an optimizer step beside
/// update_interval training steps, and then the roofline loop alone. Tells `barrier` what went wrong, and
/// never throws.
void run_rank(const RankSplit& split, const RankWork& work, ProcessBarrier& barrier,
              SplitSample* readings) noexcept;

}  // namespace zf
