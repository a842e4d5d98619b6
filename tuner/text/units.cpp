#include "text/units.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <utility>

#include "base/error.hpp"
#include "base/format.hpp"

namespace zf {
namespace {

struct Unit {
  std::string_view suffix;
  double factor;
};

/// Returns a decimal number times the unit behind it; nothing if the text is anything else.
template <std::size_t N>
std::optional<double> parse_with_unit(std::string_view text, const std::array<Unit, N>& units) {
  double number = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::general);
  if (error != std::errc() || !std::isfinite(number)) return std::nullopt;
  const std::string_view suffix(end, static_cast<std::size_t>(text.data() + text.size() - end));
  for (const Unit& unit : units) {
    if (unit.suffix == suffix) return number * unit.factor;
  }
  return std::nullopt;
}

/// Prints three significant digits without trailing zeros.
std::string three_digits(double value, std::string_view unit) { return format_text("{:.3g}{}", value, unit); }

}  // namespace

int parse_integer(std::string_view text, int low, int high, std::string_view what) {
  const auto value = parse_number<int>(text);
  if (!value || *value < low || *value > high) {
    throw Error(Exit::usage,
                format_text("{}: \"{}\" is not a whole number from {} to {}", what, text, low, high));
  }
  return *value;
}

std::uint64_t parse_quantity(std::string_view text, std::string_view what) {
  static constexpr std::array<Unit, 9> kUnits{{{"", 1},
                                               {"K", 1e3},
                                               {"k", 1e3},
                                               {"M", 1e6},
                                               {"G", 1e9},
                                               {"B", 1e9},
                                               {"b", 1e9},
                                               {"T", 1e12},
                                               {"t", 1e12}}};
  const auto value = parse_with_unit(text, kUnits);
  constexpr double kFewest = 1000;  // "7" and "7.5" lack their unit
  if (!value || *value < kFewest || *value > 1e15) {
    throw Error(Exit::usage, format_text("{}: \"{}\" is not a count of at least 1000", what, text),
                "write a count such as 3B, 500M or 1000000");
  }
  return static_cast<std::uint64_t>(std::llround(*value));
}

std::uint64_t parse_size(std::string_view text, std::string_view what) {
  static constexpr std::array<Unit, 10> kUnits{{{"", 1},
                                                {"m", 0x1p20},
                                                {"mib", 0x1p20},
                                                {"mb", 1e6},
                                                {"g", 0x1p30},
                                                {"gib", 0x1p30},
                                                {"gb", 1e9},
                                                {"t", 0x1p40},
                                                {"tib", 0x1p40},
                                                {"tb", 1e12}}};
  constexpr double kFewest = 1e6;  // "64" lacks its unit
  std::string lower(text);
  for (char& letter : lower) letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  if (const std::size_t space = lower.find(' '); space != std::string::npos && space + 1 < lower.size())
    lower.erase(space, 1);
  const auto value = parse_with_unit(lower, kUnits);
  if (!value || (*value != 0 && *value < kFewest) || *value > 0x1p50) {
    throw Error(Exit::usage, format_text("{}: \"{}\" is not a size", what, text),
                "write a size such as 512GiB, or 64GB for 64 x 10^9 bytes");
  }
  return static_cast<std::uint64_t>(std::llround(*value));
}

Nanoseconds parse_duration(std::string_view text, std::string_view what) {
  static constexpr std::array<Unit, 6> kUnits{
      {{"", 1e9}, {"s", 1e9}, {"ms", 1e6}, {"m", 60e9}, {"min", 60e9}, {"h", 3600e9}}};
  const auto value = parse_with_unit(text, kUnits);
  if (!value || *value < 1 || *value > 86400e9) {
    throw Error(Exit::usage, format_text("{}: \"{}\" is not a duration", what, text),
                "write a duration such as 60s, 500ms or 2m");
  }
  return std::llround(*value);
}

double parse_percent(std::string_view text, std::string_view what) {
  static constexpr std::array<Unit, 3> kUnits{{{"", 0.01}, {"%", 0.01}, {" %", 0.01}}};
  const auto value = parse_with_unit(text, kUnits);
  if (!value || *value <= 0 || *value > 0.5) {
    throw Error(Exit::usage, format_text("{}: \"{}\" is not a percentage above 0 and at most 50", what, text),
                "write a percentage such as 2 or 0.5%");
  }
  return *value;
}

std::vector<int> parse_counts(std::string_view text, std::string_view what) {
  const std::string whole = format_text("{}: \"{}\"", what, text);
  std::vector<int> counts;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    counts.push_back(parse_integer(text.substr(at, end - at), 1, 65536, whole));
    at = end + 1;
  }
  return counts;
}

std::string print_quantity(std::uint64_t value) {
  const auto number = static_cast<double>(value);
  if (number >= 1e12) return three_digits(number / 1e12, "T");
  if (number >= 1e9) return three_digits(number / 1e9, "B");
  if (number >= 1e6) return three_digits(number / 1e6, "M");
  return format_text("{}", value);
}

std::string print_duration(Nanoseconds ns) {
  const auto number = static_cast<double>(ns);
  if (number >= 1e9) return format_text("{:.2f} s", number / 1e9);
  if (number >= 1e6) return format_text("{:.1f} ms", number / 1e6);
  return format_text("{:.1f} us", number / 1e3);
}

std::string print_budget(Nanoseconds ns) {
  constexpr Nanoseconds kMinute = 60 * kSecondNs;
  constexpr Nanoseconds kStep = 5 * kSecondNs;
  if (ns > 2 * kMinute) return format_text("{}m", (ns + kMinute - 1) / kMinute);
  return format_text("{}s", 5 * ((ns + kStep - 1) / kStep));
}

}  // namespace zf
