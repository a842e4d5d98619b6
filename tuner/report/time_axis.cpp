#include "report/time_axis.hpp"

#include <cmath>
#include <utility>

namespace zf {

std::vector<double> round_numbers(double low, double high) {
  constexpr double kMost = 5;
  const double least = (high - low) / kMost;
  const double power = std::pow(10, std::floor(std::log10(least)));
  double step = 10 * power;
  for (const double number : {power, 2 * power, 5 * power}) {
    if (number >= least) {
      step = number;
      break;
    }
  }
  std::vector<double> numbers;
  const auto last = static_cast<int>(std::floor(high / step));
  for (auto i = static_cast<int>(std::ceil(low / step)); i <= last; ++i) numbers.push_back(i * step);
  return numbers;
}

TimeAxis::TimeAxis(double longest_ns) : high_(1.08 * longest_ns) {
  for (const auto& [name, ns] : {std::pair("us", 1e3), std::pair("ms", 1e6), std::pair("s", 1e9)}) {
    if (longest_ns / 4 < ns) break;
    unit_ = name;
    unit_ns_ = ns;
  }
}

std::vector<double> TimeAxis::ticks() const {
  std::vector<double> ticks = round_numbers(0, high_ / unit_ns_);
  for (double& tick : ticks) tick *= unit_ns_;
  return ticks;
}

}  // namespace zf
