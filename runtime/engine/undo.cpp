#include "engine/undo.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cassert>
#include <cstring>

#include "engine/half.hpp"
#include "engine/kernel.hpp"

namespace zf {

void begin_run(UndoLog& log, std::uint64_t chunk_number, std::uint64_t begin) {
  const std::uint64_t next = log.current ^ 1U;
  log.runs[next] = {.chunk_number = chunk_number, .begin = begin, .width = 0, .mark = begin};
  std::atomic_ref(log.current).store(next, std::memory_order_release);
  // Keeps the compiler from moving the kernel's first store before it.
  std::atomic_signal_fence(std::memory_order_seq_cst);
}

namespace {

void restore_floats(const float* old, void* array, std::size_t at, std::size_t n) {
  std::memcpy(static_cast<float*>(array) + at, old, n * sizeof(float));
}

/// The log holds moments widened, so what is cut off is zero.
void restore_moments(const float* old, void* array, std::size_t at, std::size_t n, StateFormat format) {
  if (!has_bf16_moments(format)) return restore_floats(old, array, at, n);
  for (std::size_t i = 0; i < n; ++i)
    static_cast<std::uint16_t*>(array)[at + i] =
        static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(old[i]) >> 16);
}

void restore_masters(const float* old, const AdamArrays& slice, std::size_t at, std::size_t n,
                     StateFormat format) {
  if (!has_split_masters(format)) return restore_floats(old, slice.p, at, n);
  for (std::size_t i = 0; i < n; ++i) {
    const SplitFloat halves = split_of_f32(old[i]);
    static_cast<std::uint16_t*>(slice.copy)[at + i] = halves.high;
    static_cast<std::uint16_t*>(slice.p)[at + i] = halves.low;
  }
}

}  // namespace

std::size_t roll_back(const UndoLog& log, std::uint64_t chunk_number, const AdamArrays& slice,
                      StateFormat format) {
  const UndoRun& run = log.runs[log.current];
  assert(run.chunk_number <= chunk_number);
  if (run.chunk_number < chunk_number) return 0;
  const std::size_t at = run.mark & ~kUndoBegun;
  assert(at <= slice.n);
  if ((run.mark & kUndoBegun) == 0) return at;
  assert(run.width >= 1 && run.width <= kUndoFloats / 2 && at < slice.n && at >= run.begin);
  const std::size_t place = (at - run.begin) & run.width;
  const std::size_t n = std::min<std::size_t>(run.width, slice.n - at);
  restore_masters(log.p + place, slice, at, n, format);
  restore_moments(log.m + place, slice.m, at, n, format);
  restore_moments(log.v + place, slice.v, at, n, format);
  return at;
}

}  // namespace zf
