// Reads arrays with a team, or by the calling thread alone: copies, sums of squares, digests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/reading.hpp"
#include "engine/team.hpp"
#include "engine/tensor_step.hpp"
#include "local/dealing.hpp"

namespace zf {

/// One array to read, and what was found.
struct Reading {
  const void* array = nullptr;
  void* copy = nullptr;  ///< or null
  std::size_t elements = 0;
  ElementType type = ElementType::f32;
  double sum_of_squares = 0;  ///< if it was wanted
  std::uint64_t digest = 0;   ///< 0 if it was not asked for

  std::size_t bytes() const { return elements * (type == ElementType::f32 ? 4 : 2); }
};

/// What to find out about each array.
struct ReadWish {
  bool norm = false;
  bool digest = false;
};

/// Bytes of the largest part: two blocks of the digest, so that two members share a list of 256 KiB. To take
/// a part costs one atomic operation, and to read it from the L2 cache 5 us (an Intel Xeon).
inline constexpr std::size_t kReadPartBytes = std::size_t{128} << 10;
static_assert(kReadPartBytes % kDigestBlockBytes == 0);

/// Divides the arrays among the members in equal shares, in order, into `result`. A part begins at a multiple
/// of kReadPartBytes of its array, and none is empty. Shares end where parts end, so one may be larger than
/// another by a part. Pure. Precondition: members >= 1.
void cut(std::span<const Reading> readings, std::size_t members, Parts& result);

/// Reads all arrays by the calling thread. Allocates nothing.
void read_alone(std::span<Reading> readings, const ReadWish& wish, Isa isa);

/// Reads all arrays by the team. The results are those of read_alone(), bit for bit.
void read_by(Team& team, Dealing& dealing, std::span<Reading> readings, const ReadWish& wish, Isa isa);

}  // namespace zf
