// Computes the sum of squares of a group's gradients, for clipping and for skipping a step that overflowed.
//
// A group is cut into blocks of 1024 elements from its start. Within a block, element i is squared in double
// (exactly, because a float has 24 bits) and added to sum number i mod 16. The 16 sums are then added
// pairwise, and the blocks are added in order. So the bits of the result depend neither on the ISA, nor on
// the number of threads, nor on where the slices end, as long as they end between blocks, as those of
// slices_of() do. If a gradient is NaN the result is a NaN; which one is not promised.
#pragma once

#include <cstddef>
#include <span>

#include "engine/isa.hpp"
#include "engine/kernel.hpp"
#include "engine/slices.hpp"

namespace zf {

inline constexpr std::size_t kNormBlock = 1024;
static_assert(kSliceGrain % kNormBlock == 0, "a slice of slices_of() is made of whole blocks");

/// Returns the number of blocks in n elements. The last one may be short.
constexpr std::size_t norm_blocks(std::size_t n) { return (n + kNormBlock - 1) / kNormBlock; }

/// Writes one sum per block of the slice g[0, n) to block_sums[0, norm_blocks(n)). Does not apply the
/// gradient scale. Makes no allocation, lock or system call.
using NormKernel = void (*)(const void* g, std::size_t n, double* block_sums);

/// Returns the kernel for gradients of a type. Precondition: is_supported(isa).
NormKernel norm_kernel(Isa isa, ElementType type);

/// Adds up all block sums of a group, in order. For the norm of several groups, add their sums of squares in
/// the order of the groups.
GradientNorm gradient_norm(std::span<const double> block_sums);

}  // namespace zf
