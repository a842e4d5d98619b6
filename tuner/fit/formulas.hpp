// The bytes of host memory that one rank needs, by who steps its model. docs/memory.md has every formula,
// with where it was read and whether it was measured. All are pure. Precondition: there is such a job
// (why_no_such_job()).
#pragma once

#include <vector>

#include "fit/fit_job.hpp"
#include "fit/instant.hpp"

namespace zf {

/// What one rank needs. Its process itself is not counted.
struct RankMemory {
  std::vector<Instant> instants;          ///< at least one of each phase
  std::uint64_t saved_once_bytes = 0;     ///< at a checkpoint, of the rank that saves the model: not of each
  std::uint64_t pinned_bytes = 0;         ///< page-locked, in the steady state
  std::uint64_t shared_memory_bytes = 0;  ///< files in /dev/shm
};

/// Returns what a rank needs whose parameters the job's own process steps: torch.optim.AdamW, or ours in
/// place.
RankMemory memory_in_place(const FitJob& job);

/// Returns the same for zf_runtime.AdamW with a process.
RankMemory memory_of_arena(const FitJob& job);

/// Returns the same for FSDP2 with CPUOffloadPolicy.
RankMemory memory_of_fsdp2(const FitJob& job);

/// Return the same for DeepSpeed's ZeRO-Offload, with its own optimizer or ours.
RankMemory memory_of_zero_1_2(const FitJob& job);
RankMemory memory_of_zero_3(const FitJob& job);

/// Returns the same for ZenFlow with overlap_step.
RankMemory memory_of_zenflow(const FitJob& job);

/// Returns the same for SuperOffload.
RankMemory memory_of_superoffload(const FitJob& job);

/// Returns the bytes of our optimizer's arena for so many elements. Its gradients and copy have the model's
/// type, or with a ZeRO stage fp32 gradients.
std::uint64_t arena_bytes(const FitJob& job, std::uint64_t elements);

/// Returns the bytes per parameter that load_state_dict() of ours in place needs for a moment. torch casts
/// each tensor of the state that has another type to that of the parameter. Afterwards ours makes fp32
/// moments of bf16 ones again, for 16-bit parameters.
std::uint64_t cast_bytes(const FitJob& job);

/// Returns the part of `elements` that one of the ranks has, rounded up.
std::uint64_t share_of(std::uint64_t elements, const FitJob& job);

}  // namespace zf
