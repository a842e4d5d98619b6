// Takes a step back, bit for bit, at 2.25 bytes of log per parameter: docs/recovery.md.
//
// A step overwrites p, m and v. From the new values and the gradients the old ones are computed again, up to
// rounding. The log keeps, for each of the three, the difference of their bits as a code of 4 bits, and the
// whole old value where the difference does not fit. The format is the same for every instruction set.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/isa.hpp"
#include "engine/kernel.hpp"

namespace zf {

/// Elements with codes that lie together. A kernel starts and stops at blocks, and its undo log holds blocks.
inline constexpr std::size_t kRollbackBlock = kWidestLane;
/// Bytes of the codes of a block: one per element with the codes of p (lower half) and m, then one per two
/// elements with those of v.
inline constexpr std::size_t kRollbackCodeBytes = kRollbackBlock * 3 / 2;
/// A difference of d units in the last place has code d + kRollbackZero. The last code means: kept whole.
inline constexpr std::uint32_t kRollbackZero = 7;
inline constexpr std::uint32_t kRollbackWhole = 15;

/// The first bytes of a slice's log. Then come the codes of all blocks, and in the rest the whole values: of
/// each block those of p, of m and of v.
struct alignas(64) RollbackHeader {
  std::uint64_t stepped;  ///< elements of the slice that are stepped and not decided, from its first on
  std::uint64_t unused[7];
};
static_assert(sizeof(RollbackHeader) == 64);

/// A place in a log: where the next block's codes and whole values lie.
struct RollbackPlace {
  std::uint8_t* codes;
  float* whole;
  const float* end;  ///< of the log
};

/// Returns the place of element `at` of a slice of n elements, by reading the codes before it. Precondition:
/// the codes before it are written, and `at` is a multiple of kRollbackBlock, or n.
RollbackPlace rollback_place(RollbackHeader& log, std::size_t n, std::size_t at);

/// Steps a slice from its first element on, writes the log, and returns how many elements it stepped: a
/// multiple of kRollbackBlock, or all. It stops before a block that has no room in the log, or an old value
/// that cannot be computed again from infinities or NaNs. It writes no outputs. `arrays.undo` must be set. A
/// kill at any instruction leaves what roll_back() needs, and codes of all elements before that place.
using SpeculateKernel = std::size_t (*)(const AdamScalars& scalars, const AdamArrays& arrays,
                                        RollbackPlace place);

/// Puts the old values of all elements of a slice back, and needs their gradients and the step's
/// scalars. `place` is that of its first element. `arrays.undo` must be set.
using TakeBackKernel = void (*)(const AdamScalars& scalars, const AdamArrays& arrays, RollbackPlace place);

/// Returns whether steps of a variant can be taken back. With L2 decay in the gradient the old p would be
/// needed to compute it.
constexpr bool can_be_taken_back(const KernelVariant& variant) {
  return variant.format == StateFormat::fp32 && !(variant.mode == AdamMode::adam && variant.decay);
}

/// Return the kernels of a variant: of its members `grad` and `decay` matter. Precondition:
/// is_supported(isa), and can_be_taken_back().
SpeculateKernel speculate_kernel(Isa isa, const KernelVariant& variant);
TakeBackKernel take_back_kernel(Isa isa, const KernelVariant& variant);

}  // namespace zf
