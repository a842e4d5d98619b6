#include "compare/statistics.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>

#include "base/format.hpp"

namespace zf {
namespace {

constexpr std::size_t kFewestForSpread = 4;

}  // namespace

double quantile(std::vector<double> values, double q) {
  assert(!values.empty());
  std::sort(values.begin(), values.end());
  const double at = q * static_cast<double>(values.size() - 1);
  const auto low = static_cast<std::size_t>(std::floor(at));
  const std::size_t high = std::min(low + 1, values.size() - 1);
  return values[low] + (at - static_cast<double>(low)) * (values[high] - values[low]);
}

double relative_spread(const std::vector<double>& values) {
  return (quantile(values, 0.75) - quantile(values, 0.25)) / median(values);
}

double median_error(const std::vector<double>& values) {
  constexpr double kOfMean = 1.2533;           // in units of the standard error of a mean
  constexpr double kQuartileDistance = 1.349;  // of a normal distribution, in standard deviations
  if (values.size() < 2 || median(values) == 0) return 0;
  return kOfMean * relative_spread(values) / kQuartileDistance /
         std::sqrt(static_cast<double>(values.size()));
}

std::string print_spread(double spread, std::size_t values) {
  return values < kFewestForSpread ? "-" : format_text("{:.1f} %", 100 * spread);
}

}  // namespace zf
