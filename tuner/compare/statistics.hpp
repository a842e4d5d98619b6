// Medians, quantiles and spreads. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace zf {

/// Returns the q-quantile (q from 0 to 1), interpolated linearly between neighbours. Precondition: not empty.
double quantile(std::vector<double> values, double q);

inline double median(std::vector<double> values) { return quantile(std::move(values), 0.5); }

/// Returns the interquartile range divided by the median; 0 for a single value.
/// Precondition: not empty, median not 0.
double relative_spread(const std::vector<double>& values);

/// Returns the standard error of the median, relative, by the spread of the values as if they were normal; 0
/// for one value.
double median_error(const std::vector<double>& values);

/// Returns "1.2 %", the relative spread of so many values; "-" if fewer than four have none.
std::string print_spread(double spread, std::size_t values);

}  // namespace zf
