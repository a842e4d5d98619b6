// The plain types of an optimizer step that the trainer, the worker and the kernels share.
//
// They lie in the arena, which two processes map. Their layouts are therefore pinned below; a change needs
// another kArenaVersion (ipc/control_block.hpp).
#pragma once

#include <cstddef>
#include <cstdint>

namespace zf {

/// The type of an array's elements. The numbers are those of zf_element_type. `none` means: no such array.
enum class ElementType : std::uint32_t { none = 0, f32 = 1, bf16 = 2, f16 = 3 };

/// adam adds weight decay to the gradient (L2); adamw decouples it.
enum class AdamMode : std::uint32_t { adam = 0, adamw = 1 };

/// Bytes that one fp32 Adam step moves per parameter: reads p, g, m, v and writes p, m, v.
inline constexpr std::uint64_t kAdamBytesPerParam = 28;

/// The factors that the kernel uses. Formulas: docs/arithmetic.md.
struct AdamScalars {
  float beta1, one_minus_beta1;
  float beta2, one_minus_beta2;
  float eps;
  float inv_sqrt_bias2;  ///< 1 / sqrt(1 - β2^t)
  float step_size;       ///< -lr / (1 - β1^t)
  float decay;           ///< AdamW: -lr·λ; Adam: λ
  float grad_scale;      ///< multiplies every gradient as it is read: unscale × clip
};
static_assert(sizeof(AdamScalars) == 36 && offsetof(AdamScalars, grad_scale) == 32);

/// The sum of squares of a group's gradients.
struct GradientNorm {
  double sum_of_squares = 0;
  std::uint32_t finite =
      0;  ///< 0 if any gradient is infinite or NaN; squares of floats cannot overflow a double
  std::uint32_t unused = 0;
};
static_assert(sizeof(GradientNorm) == 16 && offsetof(GradientNorm, finite) == 8);

inline constexpr std::size_t kWidestLane = 16;               ///< floats
inline constexpr std::size_t kUndoFloats = 4 * kWidestLane;  ///< two places of two vectors each

/// One call of a kernel over the elements [begin, ...) of a slice.
struct UndoRun {
  std::uint64_t chunk_number;  ///< the piece of work; numbers only rise
  std::uint64_t begin;         ///< the first element
  std::uint64_t width;         ///< elements that the kernel steps at once: one vector or two
  /// Elements before the mark are stepped, and those from mark + width on are not. With kUndoBegun, the ones
  /// in between may be torn, and their old values lie at (mark - begin) & width. Without, they are not
  /// stepped.
  std::uint64_t mark;
};

/// The log of a speculated step (engine/rollback.hpp) has this many bytes for each so many elements that are
/// begun: 2.25 per parameter.
inline constexpr std::size_t kRollbackGrain = 1024;
inline constexpr std::size_t kRollbackGrainBytes = kRollbackGrain * 9 / 4;
/// Returns the bytes of the log of n elements. Pure.
constexpr std::size_t rollback_bytes(std::size_t n) {
  return (n + kRollbackGrain - 1) / kRollbackGrain * kRollbackGrainBytes;
}

/// The largest number of a step.
inline constexpr std::uint64_t kMaxStep = std::uint64_t{1} << 62;

inline constexpr std::uint64_t kUndoBegun = std::uint64_t{1} << 63;

/// The record that the kernel of one thread leaves behind, so that a torn slice can be finished
/// (engine/undo.hpp). It lies in memory that outlives the worker. All zero means that nothing was begun.
struct alignas(128) UndoLog {
  float p[kUndoFloats];
  float m[kUndoFloats];
  float v[kUndoFloats];
  UndoRun runs[2];
  std::uint64_t current;  ///< the run that counts; the other is prepared, and made current by one store
  std::uint64_t unused[7];
};
static_assert(sizeof(UndoLog) == 896 && offsetof(UndoLog, runs) == 768 && offsetof(UndoLog, current) == 832);

}  // namespace zf
