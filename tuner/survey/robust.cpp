#include "survey/robust.hpp"

#include <algorithm>
#include <cmath>

#include "compare/statistics.hpp"

namespace zf {

double z_threshold(std::size_t figures) {
  constexpr double kIglewiczHoaglin = 3.5;
  return std::max(kIglewiczHoaglin,
                  std::sqrt(2 * std::log(100 * std::max(1.0, static_cast<double>(figures)))));
}

double outlier_distance(const std::vector<double>& figures, double z) {
  constexpr double kMadOfNormal = 0.6745;  // of a normal distribution with a standard deviation of 1
  constexpr std::size_t kFewFigures = 10;
  const double middle = median(figures);
  std::vector<double> deviations;
  for (const double figure : figures) deviations.push_back(std::abs(figure - middle));
  const double floor = figures.size() < kFewFigures ? 0.2 : 0.1;
  const double uncertain = 1 + 2 / std::sqrt(static_cast<double>(figures.size()));
  return std::max(floor, z * uncertain * median(std::move(deviations)) / kMadOfNormal / middle);
}

}  // namespace zf
