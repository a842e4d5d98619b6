#include "engine/undo.hpp"

#include <algorithm>
#include <atomic>
#include <cassert>
#include <cstring>

#include "engine/kernel.hpp"

namespace zf {

void begin_run(UndoLog& log, std::uint64_t chunk_number, std::uint64_t begin) {
  const std::uint64_t next = log.current ^ 1U;
  log.runs[next] = {.chunk_number = chunk_number, .begin = begin, .width = 0, .mark = begin};
  std::atomic_ref(log.current).store(next, std::memory_order_release);
  // Keeps the compiler from moving the kernel's first store before it.
  std::atomic_signal_fence(std::memory_order_seq_cst);
}

std::size_t roll_back(const UndoLog& log, std::uint64_t chunk_number, const AdamArrays& slice) {
  const UndoRun& run = log.runs[log.current];
  assert(run.chunk_number <= chunk_number);
  if (run.chunk_number < chunk_number) return 0;
  const std::size_t at = run.mark & ~kUndoBegun;
  assert(at <= slice.n);
  if ((run.mark & kUndoBegun) == 0) return at;
  assert(run.width >= 1 && run.width <= kUndoFloats / 2 && at < slice.n && at >= run.begin);
  const std::size_t place = (at - run.begin) & run.width;
  const std::size_t bytes = std::min<std::size_t>(run.width, slice.n - at) * sizeof(float);
  std::memcpy(slice.p + at, log.p + place, bytes);
  std::memcpy(slice.m + at, log.m + place, bytes);
  std::memcpy(slice.v + at, log.v + place, bytes);
  return at;
}

}  // namespace zf
