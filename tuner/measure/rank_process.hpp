// Runs one rank's part of a visit: its pool, its memory and its synthetic training, in a process of its own.
#pragma once

#include <cstdint>
#include <optional>

#include "base/state_format.hpp"
#include "engine/isa.hpp"
#include "homes/split.hpp"
#include "measure/process_barrier.hpp"
#include "plan/period.hpp"

namespace zf {

/// The work of every rank, the same for all splits.
struct RankWork {
  std::uint64_t elements = 0;                   ///< parameters that the optimizer steps over
  std::optional<TrainingDemand> training = {};  ///< already cut down; without it, the optimizer runs alone
  Schedule schedule = {};                       ///< of the part that is measured
  Isa isa = Isa::scalar;
  Framework framework = Framework::unknown;  ///< its threads and memory are imitated
  bool roofline_each_round = false;          ///< otherwise the roofline loop runs in the first round alone
  StateFormat format = StateFormat::fp32;    ///< of the step; the roofline loop moves as many bytes
};

/// Sets up the rank and runs rounds in step with the other ranks. Writes the reading of each round into
/// `readings`, which must have a place for every round. One round is one period (SplitSample), and then the
/// roofline loop alone. Ends the visit for all ranks after the rounds of the warm-up and
/// Meter::kHopelessSamples more if these are hopeless (meter.hpp). Tells `barrier` what
/// went wrong, and never throws.
void run_rank(const RankSplit& split, const RankWork& work, Nanoseconds hopeless_ns, ProcessBarrier& barrier,
              SplitSample* readings) noexcept;

/// The rounds at the beginning of a visit that are discarded.
inline constexpr int kWarmUpRounds = 1;

}  // namespace zf
