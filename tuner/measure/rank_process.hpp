// One rank's part of a visit: its pool, its memory and its load, in a process of its own.
#pragma once

#include <cstdint>
#include <optional>

#include "engine/isa.hpp"
#include "homes/split.hpp"
#include "measure/process_barrier.hpp"
#include "plan/evidence.hpp"

namespace zf {

/// What every rank does, whatever the split.
struct RankWork {
  std::uint64_t elements = 0;  ///< fp32 parameters that the optimizer steps over
  std::optional<TrainingDemand>
      training;  ///< of one training step, already cut down; absent: the optimizer alone
  int update_interval = 1;
  Isa isa = Isa::scalar;
};

/// Sets up, goes round after round with the other ranks and writes each into `readings`, which has a place
/// for every round. One round is one period: an optimizer step beside update_interval training steps; then
/// the roofline loop, alone. Tells `barrier` what went wrong, and never throws.
void run_rank(const RankSplit& split, const RankWork& work, ProcessBarrier& barrier,
              SplitSample* readings) noexcept;

}  // namespace zf
