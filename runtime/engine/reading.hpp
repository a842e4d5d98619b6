// Reads arrays once: copies the elements, sums up their squares, and computes a digest of their bytes.
//
// The sum of squares is that of engine/gradient_norm.hpp. The digest has 64 bits and depends on every byte,
// on its position and on the number of bytes. An array is cut into blocks of 64 KiB from its start, and a
// block into words of 32 bits (little-endian; the last one is filled up with zeros). In a block, each word is
// multiplied by the key of its position, an odd number of 32 bits that no other word of the block has. The
// products are added modulo 2^64, and the sum is multiplied by the weight of the block, an odd number of 64
// bits. The digest is the sum over all blocks and the number of bytes. So:
// - A change of one word always changes the digest: the difference of a product is less than 2^64 and not 0,
//   and an odd weight keeps it from becoming 0.
// - Two different words of a block that change places always change it, for the same reason: the difference
//   is (a - b) · (key - other key). Two words of different blocks do so except for one chance in 2^33.
// - The blocks may be read in any order, on any number of threads, by any ISA.
// It is for noticing what a program wrote, and is no protection against a program that looks for two arrays
// with the same digest.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/gradient_norm.hpp"
#include "engine/isa.hpp"
#include "engine/kernel.hpp"

namespace zf {

inline constexpr std::size_t kDigestBlockBytes = std::size_t{64} << 10;

/// A part of an array. It begins at a multiple of kDigestBlockBytes, and ends there or where the array ends.
struct ReadArrays {
  const void* array = nullptr;
  void* copy = nullptr;           ///< out: the same elements, or null; does not overlap the array
  std::size_t n = 0;              ///< elements
  double* block_sums = nullptr;   ///< out: norm_blocks(n) sums as NormKernel writes them, or null
  bool digest = false;            ///< whether to compute the share of the digest
  std::uint64_t first_block = 0;  ///< the number of the part's first block of kDigestBlockBytes in the array
};

/// Returns the part's share of the digest, or 0. It goes over memory once: pieces of 4 KiB are used for
/// everything while they are in the L1 cache. Makes no allocation, lock or system call.
using ReadKernel = std::uint64_t (*)(const ReadArrays& arrays);

/// Returns the kernel for elements of a type. Precondition: is_supported(isa).
ReadKernel read_kernel(Isa isa, ElementType type);

/// Returns the digest of an array of so many bytes from the sum of the shares of its parts, modulo 2^64.
/// Pure.
std::uint64_t digest_of(std::uint64_t shares, std::uint64_t bytes);

}  // namespace zf
