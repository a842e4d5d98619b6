// How much longer one of two things takes, and how certain that is. Pure.
#pragma once

namespace zf {

/// The relative difference by which b takes longer than a: 0.05 is 5 % longer, -0.05 is 5 % shorter.
struct Difference {
  double estimate = 0;
  double low = 0;  ///< limits of the 95 % confidence interval; -1 and +infinity if it is unknown
  double high = 0;
  double half_width() const { return (high - low) / 2; }
  bool is_known() const;
};

/// Returns the same difference the other way round: by how much a takes longer than b.
Difference inverse(const Difference& difference);

}  // namespace zf
