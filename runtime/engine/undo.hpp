// What a kernel leaves behind so that a slice torn by a kill can be finished: docs/recovery.md.
//
// Before the kernel overwrites a vector of (p, m, v) it stores the old values here, from the registers that
// hold them anyway, then the vector's number, then the new values: plain stores, in this order. There are two
// places for old values, used in turn, so that those of the vector under way are never half overwritten.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/step_types.hpp"

namespace zf {

struct AdamArrays;

/// Before a kernel is called for [begin, ...) of a slice, which ends the run before it.
void begin_run(UndoLog& log, std::uint64_t chunk_number, std::uint64_t begin);

/// Puts the old values of a torn vector back, and returns the first element of the slice that is not stepped.
/// The same however often it is called. Precondition: no later entry was begun; `slice` is the whole slice.
std::size_t roll_back(const UndoLog& log, std::uint64_t chunk_number, const AdamArrays& slice);

}  // namespace zf
