#include "plan/field_rules.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/format.hpp"

namespace zf {
namespace {

template <class Integer>
Complaint complaint_of(const Whole& rule, Integer value) {
  const auto low = rule.low_of<Integer>();
  const auto high = rule.high_of<Integer>();
  return value >= low && value <= high ? "" : format_text("is {}, not between {} and {}", value, low, high);
}

/// Returns true if the text has the shape, in which d stands for a digit and x for one in hexadecimal.
bool has_shape(std::string_view text, std::string_view shape) {
  return std::equal(text.begin(), text.end(), shape.begin(), shape.end(), [](char c, char expected) {
    const bool digit = c >= '0' && c <= '9';
    if (expected == 'd') return digit;
    return expected == 'x' ? digit || (c >= 'a' && c <= 'f') : c == expected;
  });
}

}  // namespace

Complaint Whole::complaint(int value) const { return complaint_of(*this, value); }
Complaint Whole::complaint(std::int64_t value) const { return complaint_of(*this, value); }
Complaint Whole::complaint(std::uint64_t value) const { return complaint_of(*this, value); }

Complaint Real::complaint(double value) const {
  const bool above_low = ends == Ends::included ? value >= low : value > low;
  const bool below_high = ends == Ends::both_excluded ? value < high : value <= high;
  if (std::isfinite(value) && above_low && below_high) return "";
  if (std::isinf(low)) return format_text("is {}, not a finite number", value);
  if (ends == Ends::both_excluded) return format_text("must be between {} and {}, both excluded", low, high);
  if (ends == Ends::low_excluded) {
    return std::isinf(high) ? format_text("is {}, not above {}", value, low)
                            : format_text("must be above {} and at most {:.0f}", low, high);
  }
  return std::isinf(high) ? format_text("is {}, below {}", value, low)
                          : format_text("is {}, not between {} and {}", value, low, high);
}

Complaint Shaped::complaint(std::string_view text) const {
  if (shape == TextShape::fingerprint)
    return has_shape(text, "xxxxxxxxxxxxxxxx") ? "" : "is not 16 hex digits";
  return has_shape(text, "dddd-dd-ddTdd:dd:ddZ") ? "" : "is not a UTC time like 2026-11-20T21:00:00Z";
}

}  // namespace zf
