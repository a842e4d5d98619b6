// Medians and spreads: what a noisy machine allows to be said. Pure.
#pragma once

#include <utility>
#include <vector>

namespace zf {

/// The q-quantile (0..1), linear between neighbours. Precondition: not empty.
double quantile(std::vector<double> values, double q);

inline double median(std::vector<double> values) { return quantile(std::move(values), 0.5); }

/// Interquartile range over median: 0 for fewer than two values. Precondition: not empty, median not 0.
double relative_spread(const std::vector<double>& values);

}  // namespace zf
