// What a kernel leaves behind so that a slice torn by a kill can be finished: docs/recovery.md.
//
// Before the kernel overwrites a vector of (p, m, v) it stores the old values here, from the registers that
// hold them anyway, then the vector's number, then the new values: plain stores, in this order. There are two
// places for old values, used in turn, so that those of the vector under way are never half overwritten.
#pragma once

#include <cstddef>
#include <cstdint>

namespace zf {

struct AdamArrays;

inline constexpr std::size_t kUndoFloats = 32;  ///< two vectors of the widest lane

/// One call of a kernel over the elements [begin, ...) of a slice.
struct UndoRun {
  std::uint64_t entry;  ///< which piece of work: numbers rise
  std::uint64_t begin;  ///< first element
  std::uint64_t width;  ///< elements of a vector
  /// Elements before it are stepped, those after its vector are not. With kUndoBegun, the vector at it may be
  /// torn, and its old values lie at (mark - begin) & width; without, it is not stepped.
  std::uint64_t mark;
};

inline constexpr std::uint64_t kUndoBegun = std::uint64_t{1} << 63;

/// Of one thread, in memory that outlives its process. All zero: nothing begun.
struct alignas(128) UndoLog {
  float p[kUndoFloats];
  float m[kUndoFloats];
  float v[kUndoFloats];
  UndoRun runs[2];
  std::uint64_t
      current;  ///< which run counts; the other is made ready beside it and becomes true by one store
  std::uint64_t unused[7];
};
static_assert(sizeof(UndoLog) == 512 && offsetof(UndoLog, runs) == 384 && offsetof(UndoLog, current) == 448);

/// Before a kernel is called for [begin, ...) of a slice, which ends the run before it.
void begin_run(UndoLog& log, std::uint64_t entry, std::uint64_t begin);

/// Puts the old values of a torn vector back, and returns the first element of the slice that is not stepped.
/// The same however often it is called. Precondition: no later entry was begun; `slice` is the whole slice.
std::size_t roll_back(const UndoLog& log, std::uint64_t entry, const AdamArrays& slice);

}  // namespace zf
