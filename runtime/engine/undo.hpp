// Lets a new worker finish a slice after its kernel was killed at any instruction: docs/recovery.md.
//
// Before the kernel overwrites a vector of (p, m, v) it stores the old values in the thread's UndoLog, from
// the registers that hold them anyway. Then it stores the number of the vector (the mark), and then the new
// values. These are plain stores, in this order. There are two places for old values, used in turn, so that
// those of the present vector are never half overwritten.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/state_format.hpp"
#include "base/step_types.hpp"

namespace zf {

struct AdamArrays;

/// Begins a run. Call it before a kernel is called for [begin, ...) of a slice. It ends the run before.
void begin_run(UndoLog& log, std::uint64_t chunk_number, std::uint64_t begin);

/// Restores the old values of a torn vector, and returns the first element of the slice that is not stepped.
/// Calling it again changes nothing. Precondition: no later chunk was begun, and `slice` is the whole slice,
/// in the format of the kernel.
std::size_t roll_back(const UndoLog& log, std::uint64_t chunk_number, const AdamArrays& slice,
                      StateFormat format);

}  // namespace zf
