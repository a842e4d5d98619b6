// Copies an array past the caches: what is written is not read again soon, and its lines are not read first.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/isa.hpp"

namespace zf {

struct StreamedArray {
  const void* from = nullptr;           ///< at any even address
  const std::uint16_t* high = nullptr;  ///< or null; else `from` has the low halves of split masters
  void* to = nullptr;                   ///< at any even address; gets joined masters as fp32, aligned
  std::size_t bytes = 0;                ///< that are written; of joined masters a multiple of 4
};

/// Makes no allocation, lock or system call. What is written is visible before any later store of the thread.
using StreamKernel = void (*)(const StreamedArray& array);

/// Precondition: is_supported(isa).
StreamKernel stream_kernel(Isa isa);

}  // namespace zf
