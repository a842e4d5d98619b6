// Looks for the best division of the cores (home_score.hpp). Pure.
#pragma once

#include "homes/domains.hpp"
#include "homes/home_score.hpp"

namespace zf {

/// The search looks at so many exchanges at most, which takes up to 5 ms for 2 packages of 96 cores and 8
/// ranks. It is a number and no time, because every rank computes the homes alone, and all must come to the
/// same ones.
inline constexpr int kMostComparisons = 40'000;

struct FoundDivision {
  Division division;
  int comparisons = 0;  ///< exchanges that were looked at
  /// No exchange between two ranks would be better. False: the limit came first.
  bool is_settled = true;
};

/// Returns the best division that is found. The search makes exchanges between two ranks that are better,
/// until there are none. Then it makes a few exchanges at random (the same ones each time), goes on from
/// there, and keeps what is not worse, until it has looked at most of `most_comparisons` (of fewer if there
/// are few cores), or no rank could have a better home if it were alone. Of equally good homes it takes those
/// with cores that are closer together. Preconditions: at least one rank, and no more ranks than cores.
FoundDivision find_division(const Domains& domains, int most_comparisons = kMostComparisons);

}  // namespace zf
