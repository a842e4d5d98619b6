#include "measure/disturbance.hpp"

#include <algorithm>

#include "base/format.hpp"
#include "base/text.hpp"
#include "text/wrap.hpp"

namespace zf {
namespace {

constexpr std::size_t kMostNamed = 5;

/// Returns "On these CPUs also ran …", and what to do.
std::string neighbours_in_words(const std::vector<Neighbour>& neighbours) {
  if (neighbours.empty()) {
    return "No other process was seen on these CPUs all the while; short ones, and those outside this "
           "container or virtual machine, cannot be seen.";
  }
  std::vector<std::string> named;
  for (const Neighbour& neighbour : neighbours) {
    if (named.size() == kMostNamed) break;
    named.push_back(format_text("{} (process {}, {:.0f} % of a CPU)", one_line(neighbour.process),
                                neighbour.pid, 100 * neighbour.cpus));
  }
  if (neighbours.size() > kMostNamed) named.push_back(format_text("{} more", neighbours.size() - kMostNamed));
  return format_text("On these CPUs also ran {}. Measure again without {}.", enumerated(named),
                     neighbours.size() == 1 ? "it" : "them");
}

}  // namespace

bool is_disturbed(double ratio, double spread) {
  return spread > kMostCalmSpread || ratio > 1 + std::max(kMaxStepAboveRoofline, spread);
}

std::string disturbance_in_words(const std::vector<Neighbour>& neighbours, std::size_t width) {
  return hanging(
      "",
      format_text(
          "A row that is {} is not to be believed: it spreads by more than {:.0f} %, or its step is faster "
          "than the roofline loop by more than the noise. {}",
          kDisturbedMark, 100 * kMostCalmSpread, neighbours_in_words(neighbours)),
      width);
}

}  // namespace zf
