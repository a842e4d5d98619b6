// Checks a list of zf_reading, turns it into readings of the engine, and writes the results back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "local/reading.hpp"
#include "zf_runtime.h"

namespace zf {

/// The arguments of zf_local_read.
struct ReadingList {
  zf_reading* readings;
  std::size_t count;
  std::uint32_t reading_size;
  std::uint32_t what;
};

/// Returns the readings. Throws AbiError(ZF_ERROR_USAGE) that names the index of a reading that cannot be
/// read, or AbiError(ZF_ERROR_ABI).
std::vector<Reading> read_readings(const ReadingList& list);

/// Returns what is wanted for each of them.
ReadWish wish_of(const ReadingList& list);

/// Writes what was wanted into the program's list.
void write_results(const std::vector<Reading>& readings, const ReadingList& list);

}  // namespace zf
