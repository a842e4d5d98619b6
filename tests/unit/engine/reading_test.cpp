#include "engine/reading.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "kernel_fixture.hpp"

namespace zf {
namespace {

/// Bytes as a test writes them. They begin `shift` bytes behind a 64-byte boundary.
struct Bytes {
  explicit Bytes(std::size_t size, unsigned seed = 1, std::size_t shift_bytes = 0)
      : shift(shift_bytes), memory(size + shift_bytes) {
    std::mt19937 random(seed);
    for (unsigned char& byte : memory) byte = static_cast<unsigned char>(random());
  }
  unsigned char* data() { return memory.data() + shift; }
  std::size_t size() const { return memory.size() - shift; }

  std::size_t shift;
  AlignedArray<unsigned char> memory;
};

std::uint64_t digest(Bytes& bytes, Isa isa = Isa::scalar, ElementType type = ElementType::bf16) {
  const std::size_t n = bytes.size() / element_bytes(type);
  const std::uint64_t shares = read_kernel(isa, type)({.array = bytes.data(), .n = n, .digest = true});
  return digest_of(shares, bytes.size());
}

constexpr std::size_t kSizes[] = {2, 4, 6, 62, 64, 66, 4094, 4096, 4098, 65'534, 65'536, 65'538, 300'006};

TEST(Reading, DigestIsTheSameOnEveryIsaTypeAndAddress) {
  for (const std::size_t size : kSizes) {
    Bytes reference(size);
    const std::uint64_t expected = digest(reference);
    for (const Isa isa : supported_isas()) {
      for (const std::size_t shift : {0U, 2U, 30U}) {
        Bytes moved(size, 2, shift);
        std::copy_n(reference.data(), size, moved.data());
        EXPECT_EQ(digest(moved, isa), expected) << name_of(isa) << ' ' << size << ' ' << shift;
        EXPECT_EQ(digest(moved, isa, ElementType::f16), expected);
      }
      if (size % 4 == 0) {
        EXPECT_EQ(digest(reference, isa, ElementType::f32), expected);
      }
    }
  }
}

TEST(Reading, DigestStaysWhatItIs) {
  // It is compared between processes, which may run on different architectures.
  Bytes bytes(200'002);
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes.data()[i] = static_cast<unsigned char>(i * i + i / 251);
  EXPECT_EQ(digest(bytes), 4223703856561998503U);
}

TEST(Reading, EachFlippedBitChangesTheDigest) {
  for (const std::size_t size : {2U, 4098U, 66'000U}) {
    Bytes bytes(size);
    const std::uint64_t before = digest(bytes, chosen_isa());
    const std::size_t step = size > 10'000 ? 1013 : 1;
    for (std::size_t bit = 0; bit < size * 8; bit += step) {
      bytes.data()[bit / 8] ^= static_cast<unsigned char>(1U << bit % 8);
      EXPECT_NE(digest(bytes, chosen_isa()), before) << bit;
      bytes.data()[bit / 8] ^= static_cast<unsigned char>(1U << bit % 8);
    }
  }
}

TEST(Reading, TwoWordsThatChangePlacesChangeTheDigest) {
  // Of zeros and two words the digest shows the keys: each place has another one.
  Bytes zeros(2 * kDigestBlockBytes);
  std::fill(zeros.memory.begin(), zeros.memory.end(), static_cast<unsigned char>(0));
  const auto digest_of_word_at = [&](std::size_t word) {
    zeros.data()[4 * word] = 1;
    const std::uint64_t found = digest(zeros, chosen_isa());
    zeros.data()[4 * word] = 0;
    return found;
  };
  std::set<std::uint64_t> seen;
  constexpr std::size_t words = 2 * kDigestBlockBytes / 4;
  for (std::size_t word = 0; word < words; ++word) seen.insert(digest_of_word_at(word));
  EXPECT_EQ(seen.size(), words);
  std::mt19937 random(3);
  Bytes bytes(4 * kDigestBlockBytes);
  const std::uint64_t before = digest(bytes, chosen_isa());
  for (int i = 0; i < 2000; ++i) {
    const std::size_t a = random() % (bytes.size() / 4) * 4;
    const std::size_t b = random() % (bytes.size() / 4) * 4;
    const auto swap = [&] { std::swap_ranges(bytes.data() + a, bytes.data() + a + 4, bytes.data() + b); };
    if (std::equal(bytes.data() + a, bytes.data() + a + 4, bytes.data() + b)) continue;
    swap();
    EXPECT_NE(digest(bytes, chosen_isa()), before);
    swap();
  }
}

TEST(Reading, TheNumberOfBytesChangesTheDigest) {
  std::set<std::uint64_t> seen;
  for (const std::size_t size : kSizes) {
    Bytes zeros(size);
    std::fill(zeros.memory.begin(), zeros.memory.end(), static_cast<unsigned char>(0));
    seen.insert(digest(zeros));
  }
  EXPECT_EQ(seen.size(), std::size(kSizes));
}

TEST(Reading, PartsAddUpToTheWhole) {
  for (const Isa isa : supported_isas()) {
    for (const ElementType type : {ElementType::f32, ElementType::bf16}) {
      Bytes bytes(5 * kDigestBlockBytes + 20);
      std::uint64_t shares = 0;
      for (const std::size_t begin : {std::size_t{2}, std::size_t{0}}) {
        const std::size_t end = begin == 0 ? 2 * kDigestBlockBytes : bytes.size();
        const std::size_t at = begin * kDigestBlockBytes;
        shares += read_kernel(isa, type)({.array = bytes.data() + at,
                                          .n = (end - at) / element_bytes(type),
                                          .digest = true,
                                          .first_block = begin});
      }
      EXPECT_EQ(digest_of(shares, bytes.size()), digest(bytes, isa, type));
    }
  }
}

TEST(Reading, CopiesExactlyAndSumsUpTheSquares) {
  for (const Isa isa : supported_isas()) {
    for (const ElementType type : {ElementType::f32, ElementType::bf16, ElementType::f16}) {
      for (const std::size_t n : {1U, 15U, 1023U, 1025U, 2047U, 100'003U}) {
        TestState state = random_state(n, type, 47, false);
        const void* const g = state.arrays({.grad = type}, 0, n).g;
        std::vector<double> wanted(norm_blocks(n));
        norm_kernel(isa, type)(g, n, wanted.data());
        std::vector<double> sums(norm_blocks(n) + 1, -1.0);
        const std::size_t bytes = n * element_bytes(type);
        Bytes copy(bytes + 8, 9, 2);
        const Bytes before = copy;
        const auto share = read_kernel(
            isa, type)({.array = g, .copy = copy.data(), .n = n, .block_sums = sums.data(), .digest = true});
        EXPECT_EQ(sums.back(), -1.0);
        sums.pop_back();
        EXPECT_EQ(sums, wanted) << name_of(isa) << ' ' << n;
        EXPECT_EQ(std::memcmp(copy.data(), g, bytes), 0);
        EXPECT_TRUE(std::equal(copy.memory.end() - 8, copy.memory.end(), before.memory.end() - 8));
        EXPECT_EQ(share, read_kernel(isa, type)({.array = g, .n = n, .digest = true}));
        EXPECT_EQ(read_kernel(isa, type)({.array = g, .copy = copy.data(), .n = n}), 0U);
      }
    }
  }
}

}  // namespace
}  // namespace zf
