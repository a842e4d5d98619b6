// The sum of squares of a group's gradients, for clipping and for skipping a step that overflowed.
//
// A group is cut into blocks of 1024 elements from its start. Within a block, element i is squared in double
// (exact: a float has 24 bits) and added to the i mod 16 th of 16 sums, which are then added pairwise; blocks
// are added in order. So the bits of the result do not depend on the ISA, on how many threads there are or
// on where the slices end, as long as they end between blocks (slices_of() does). With a NaN
// among the gradients it is a NaN; which one is not promised.
#pragma once

#include <cstddef>
#include <span>

#include "engine/isa.hpp"
#include "engine/kernel.hpp"
#include "engine/slices.hpp"

namespace zf {

inline constexpr std::size_t kNormBlock = 1024;
static_assert(kSliceGrain % kNormBlock == 0, "a slice of slices_of() is made of whole blocks");

/// Blocks in n elements; the last one may be short.
constexpr std::size_t norm_blocks(std::size_t n) { return (n + kNormBlock - 1) / kNormBlock; }

/// Writes one sum per block of the slice g[0, n) to block_sums[0, norm_blocks(n)). Gradients as they are: the
/// gradient scale is not applied. No allocation, lock or system call.
using NormKernel = void (*)(const void* g, std::size_t n, double* block_sums);

/// Precondition: is_supported(isa).
NormKernel norm_kernel(Isa isa, ElementType type);

/// All blocks of a group, in order. Several groups: add their sums of squares in the order of the groups.
GradientNorm gradient_norm(std::span<const double> block_sums);

}  // namespace zf
