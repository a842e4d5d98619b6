// Values as people type them: 3B, 60s, 1,2,4.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.hpp"

namespace zf {

// Each throws Error(usage) that begins with `what` (the flag), quotes the text and shows a right one.

/// A decimal integer within [low, high].
int parse_integer(std::string_view text, int low, int high, std::string_view what);

/// A count: "1000", "64K", "500M", "3B", "1.5B" (powers of ten; G is B). At least 1, at most 10^15.
std::uint64_t parse_quantity(std::string_view text, std::string_view what);

/// A duration: "60s", "500ms", "2m", "1.5s"; a bare number is seconds. More than 0, at most a day.
Nanoseconds parse_duration(std::string_view text, std::string_view what);

/// A part of the whole, as a fraction: "2", "2%" and "2 %" are 0.02. More than 0, at most 50 %.
double parse_percent(std::string_view text, std::string_view what);

/// Thread counts: "1,2,4". Each at least 1.
std::vector<int> parse_counts(std::string_view text, std::string_view what);

/// "3.09B", "64M", "1000": three digits that matter.
std::string print_quantity(std::uint64_t value);

/// "1.06 GiB", "512 MiB".
std::string print_bytes(std::uint64_t bytes);

/// "12.3 ms", "1.52 s", "840 us".
std::string print_duration(Nanoseconds ns);

}  // namespace zf
