#include "compare/difference.hpp"

#include <cmath>
#include <limits>

namespace zf {

bool Difference::is_known() const { return std::isfinite(high); }

Difference inverse(const Difference& difference) {
  const auto other = [](double relative) {
    return relative <= -1 ? std::numeric_limits<double>::infinity() : 1 / (1 + relative) - 1;
  };
  return {other(difference.estimate), other(difference.high), other(difference.low)};
}

}  // namespace zf
