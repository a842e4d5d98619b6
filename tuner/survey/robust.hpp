// Which of many like figures is an outlier. Pure.
#pragma once

#include <cstddef>
#include <vector>

namespace zf {

/// Fewer like figures than this have no outlier: of two, neither is the odd one.
inline constexpr std::size_t kFewestFigures = 3;

/// Returns the threshold for modified z-scores if so many are looked at. It is 3.5, as Iglewicz and Hoaglin
/// advise ("How to Detect and Handle Outliers", 1993). For more than 4 it is sqrt(2 ln(100 figures)): then,
/// of 100 surveys with normal noise and no fault, fewer than one accuses a node.
double z_threshold(std::size_t figures);

/// Returns how far from the median a figure must be to be an outlier, as a fraction of the median: z times
/// the standard deviation that the median absolute deviation (MAD) stands for. That is times 1 + 2 / sqrt(n),
/// because the MAD of n figures is uncertain itself: without it, in 2 of 40 made-up surveys with 8 % noise, a
/// node of a class of 30 was accused. It is never less than 10 %, or 20 % for fewer than 10 figures. What is
/// closer is not found: at 2 % noise that is about 11 %, at 8 % noise 45 %.
/// Precondition: not empty, median above 0.
double outlier_distance(const std::vector<double>& figures, double z);

}  // namespace zf
