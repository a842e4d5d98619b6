#include "compare/difference.hpp"

#include <cmath>

#include "base/format.hpp"

namespace zf {

bool Difference::is_known() const { return std::isfinite(high); }

std::string difference_in_words(const Difference& slower) {
  const auto one = [](double relative) {
    return format_text("{:.1f} % {}", 100 * std::abs(relative), relative < 0 ? "faster" : "slower");
  };
  if (!slower.is_known()) return one(slower.estimate) + " (95 % confidence: unknown)";
  return format_text("{} (95 % confidence: {} to {})", one(slower.estimate), one(slower.low),
                     one(slower.high));
}

}  // namespace zf
