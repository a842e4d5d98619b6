// Whether figures of a measurement can be believed, and what else ran on its CPUs. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace zf {

/// A step can be this much faster than its roofline loop by chance, relative.
inline constexpr double kMaxStepAboveRoofline = 0.15;
/// Figures that spread more than this (interquartile range ÷ median) are not believed.
inline constexpr double kMostCalmSpread = 0.25;

/// The mark of a row that is_disturbed().
inline constexpr const char* kDisturbedMark = "disturbed";

/// A process that was there all the while, and used CPUs of the measurement.
struct Neighbour {
  std::string process;
  int pid = 0;
  double cpus = 0;  ///< how many CPUs' time it took
};

/// Returns true if the figures cannot be believed: they spread by more than kMostCalmSpread, or the step is
/// faster than the roofline loop by more than kMaxStepAboveRoofline and by more than they spread. `ratio` is
/// the time of the roofline loop divided by that of the step.
bool is_disturbed(double ratio, double spread);

/// Returns what stands below a table with marked rows (kDisturbedMark), at most `width` columns wide: what
/// the mark means, and the neighbours. Ends with a newline.
std::string disturbance_in_words(const std::vector<Neighbour>& neighbours, std::size_t width);

}  // namespace zf
