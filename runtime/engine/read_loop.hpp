// Reads arrays once, for any Lane. Included as adam_loop.hpp is, under its rules.
//
// Beside the members that adam_loop.hpp and norm_loop.hpp list, a Lane has: W (width words of 32 bits);
// load_words (any address of even value); add_words; set_words(word), which is that word in each place; S
// (the 64-bit sums of the products of W's words), no_sums(), add_products(sums, a, b), and total(sums), all
// of them added up.
#pragma once

#include "engine/norm_loop.hpp"
#include "engine/reading.hpp"

namespace zf {
namespace {

constexpr size_t kPieceBytes = 4096;  // a piece and its copy fit into the L1 cache
constexpr size_t kPieceWords = kPieceBytes / sizeof(uint32_t);
static_assert(kDigestBlockBytes % kPieceBytes == 0 && kPieceBytes % (kNormBlock * 4) == 0);

/// The finalizer of SplitMix64.
constexpr uint64_t mixed(uint64_t x) {
  x = (x + 1) * 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

// The key of word i of piece k of a block is kWordKeys.of_word[i] + key_of_piece(k). From the lowest bit on
// it has a 1, ten bits for i, four for k, and 17 bits of a hash of both. So no two words of a block have the
// same.
constexpr uint32_t kHashedBits = 0xffff8000U;
static_assert(kPieceWords == 1 << 10 && kDigestBlockBytes / kPieceBytes == 1 << 4);

constexpr uint32_t key_of_piece(size_t piece) {
  const auto number = static_cast<uint32_t>(piece) << 11;
  return (static_cast<uint32_t>(mixed(piece + kPieceWords)) & kHashedBits) | number;
}

struct WordKeys {
  constexpr WordKeys() {
    for (size_t i = 0; i < kPieceWords; ++i)
      of_word[i] = (static_cast<uint32_t>(mixed(i)) & kHashedBits) | static_cast<uint32_t>(i) << 1 | 1U;
  }
  alignas(64) uint32_t of_word[kPieceWords] = {};
};
constexpr WordKeys kWordKeys;

/// Adds the products of a piece's words and their keys.
template <class Lane>
void add_piece(typename Lane::S& sums, const char* at, size_t bytes, size_t piece) {
  constexpr size_t step = Lane::width * sizeof(uint32_t);
  const typename Lane::W key = Lane::set_words(key_of_piece(piece));
  const auto add = [&](const void* words, size_t i) __attribute__((always_inline)) {
    const void* const keys = kWordKeys.of_word + i / sizeof(uint32_t);
    Lane::add_products(sums, Lane::load_words(static_cast<const uint16_t*>(words)),
                       Lane::add_words(Lane::load_words(static_cast<const uint16_t*>(keys)), key));
  };
  const size_t rest = bytes % step;
  for (size_t i = 0; i < bytes - rest; i += step) add(at + i, i);
  if (rest == 0) return;
  alignas(64) char padded[step] = {};
  memcpy(padded, at + bytes - rest, rest);
  add(padded, bytes - rest);
}

/// Copies a piece to `own`, and from there to `to`, past the caches where that can be: it is not read soon.
template <class Lane>
void copy_piece(char* to, const char* from, char* own, size_t bytes) {
  memcpy(own, from, bytes);
  if (Lane::passes_caches && bytes == kPieceBytes && reinterpret_cast<uintptr_t>(to) % 64 == 0) {
    for (size_t i = 0; i < kPieceBytes; i += Lane::width * sizeof(float))
      Lane::stream(reinterpret_cast<float*>(to + i), Lane::load(reinterpret_cast<const float*>(own + i)));
  } else {
    memcpy(to, own, bytes);
  }
}

template <class Lane, ElementType kType>
void add_squares_of_piece(const char* at, size_t bytes, double*& block_sums) {
  const size_t n = bytes / size_of(kType);
  for (size_t begin = 0; begin < n; begin += kNormBlock) {
    const size_t end = n - begin < kNormBlock ? n : begin + kNormBlock;
    *block_sums++ = block_sum<Lane, kType>(at, begin, end);
  }
}

template <class Lane, ElementType kType>
uint64_t read_blocks(const ReadArrays& arrays) {
  const StandardFloats standard_floats;
  const char* const from = static_cast<const char*>(arrays.array);
  const size_t bytes = arrays.n * size_of(kType);
  double* block_sums = arrays.block_sums;
  uint64_t digest = 0;
  uint64_t block = arrays.first_block;
  for (size_t begin = 0; begin < bytes; begin += kDigestBlockBytes, ++block) {
    const size_t end = bytes - begin < kDigestBlockBytes ? bytes : begin + kDigestBlockBytes;
    typename Lane::S sums = Lane::no_sums();
    for (size_t at = begin; at < end; at += kPieceBytes) {
      const size_t size = end - at < kPieceBytes ? end - at : kPieceBytes;
      const char* piece = from + at;
      alignas(64) char own[kPieceBytes];
      if (arrays.copy != nullptr) {
        copy_piece<Lane>(static_cast<char*>(arrays.copy) + at, piece, own, size);
        piece = own;  // a writer of the array does not part a digest from its copy
      }
      if (arrays.digest) add_piece<Lane>(sums, piece, size, (at - begin) / kPieceBytes);
      if (block_sums != nullptr) add_squares_of_piece<Lane, kType>(piece, size, block_sums);
    }
    digest += Lane::total(sums) * (mixed(block) | 1U);
  }
  if (arrays.copy != nullptr) Lane::fence();  // the copy is there when this returns
  return digest;
}

template <class Lane>
ReadKernel read_kernel_of(ElementType type) {
  return by_type<ReadKernel>(type, read_blocks<Lane, ElementType::bf16>, read_blocks<Lane, ElementType::f16>,
                             read_blocks<Lane, ElementType::f32>);
}

}  // namespace
}  // namespace zf
