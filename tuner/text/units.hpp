// Numbers and times as people type them and read them: 3B, 60s, 1,2,4, 12.3 ms.
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.hpp"
#include "base/text.hpp"

namespace zf {

/// Returns the integer that the whole text is; nothing if the text is anything else or the number does not
/// fit.
template <class Integer>
std::optional<Integer> parse_number(std::string_view text, int base = 10) {
  Integer value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value, base);
  return error == std::errc() && stop == end ? std::optional(value) : std::nullopt;
}

// Each of these throws Error(usage) that begins with `what` (the flag), quotes the text and shows a right
// one.

/// Reads a decimal integer from `low` to `high`.
int parse_integer(std::string_view text, int low, int high, std::string_view what);

/// Reads a count: "1000", "7e9", "64K", "500M", "3B", "1.5B" (powers of ten; G is B). At least 1000: "7"
/// lacks its unit. At most 10^15.
std::uint64_t parse_quantity(std::string_view text, std::string_view what);

/// Reads a size in bytes: "512GiB", "512G" (powers of 1,024), "512GB" (powers of ten), with MiB, TiB and so
/// on, in small letters too, or "64e9". 0 or at least 10^6: "64" lacks its unit. At most 2^50.
std::uint64_t parse_size(std::string_view text, std::string_view what);

/// Reads a duration: "60s", "500ms", "2m" or "2min", "1.5s"; a bare number is seconds. At least 1 ns, at most
/// a day.
Nanoseconds parse_duration(std::string_view text, std::string_view what);

/// Reads a percentage and returns it as a fraction: "2", "2%" and "2 %" are 0.02. Above 0, at most 50 %.
double parse_percent(std::string_view text, std::string_view what);

/// Reads thread counts: "1,2,4". Each is at least 1.
std::vector<int> parse_counts(std::string_view text, std::string_view what);

/// Prints "3.09B", "64M", "1000": three significant digits.
std::string print_quantity(std::uint64_t value);

/// Prints "1.52 s", "12.3 ms", "840.0 us".
std::string print_duration(Nanoseconds ns);

/// Prints a round duration that is not shorter, as parse_duration() reads it: "45s" (in steps of 5 s), above
/// two minutes "3m".
std::string print_budget(Nanoseconds ns);

}  // namespace zf
