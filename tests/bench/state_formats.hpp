// The step in each state format, beside the step in fp32 that does the same work.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "base/state_format.hpp"
#include "os/affinity.hpp"

namespace zf {

/// Makes all memory of this process from now on consist of 4 KiB pages. Throws Error(runtime_error).
void forbid_huge_pages();

/// Measures and prints a table: how many times faster each format is than fp32, and how many times fewer
/// bytes it moves. Only `state`, if there is one.
void print_state_formats(const std::vector<Pu>& pus, std::size_t params, std::size_t rounds,
                         std::optional<StateFormat> state);

}  // namespace zf
