// Medians, spreads, and how certain a difference between two noisy measurements is. Pure.
#pragma once

#include <utility>
#include <vector>

namespace zf {

/// Returns the q-quantile (q from 0 to 1), interpolated linearly between neighbours. Precondition: not empty.
double quantile(std::vector<double> values, double q);

inline double median(std::vector<double> values) { return quantile(std::move(values), 0.5); }

/// Returns the interquartile range divided by the median; 0 for a single value.
/// Precondition: not empty, median not 0.
double relative_spread(const std::vector<double>& values);

/// One measured time and the block that it belongs to. The values of one block were measured side by side (in
/// one round of a sweep, or one repetition of a trial), so that a slow drift of the machine affects all of
/// them alike.
struct Observation {
  int block = 0;
  double value = 0;  ///< above 0
};

/// The relative difference by which b takes longer than a: 0.05 is 5 % longer, -0.05 is 5 % shorter.
struct Difference {
  double estimate = 0;
  double low = 0;  ///< limits of the 95 % confidence interval; -1 and +infinity if there are too few values
  double high = 0;
  double half_width() const { return (high - low) / 2; }
};

/// Compares b with a by ranks, so that outliers and odd distributions do no harm. The estimate is the median
/// of all ratios b/a within a block (Hodges and Lehmann). The interval inverts the rank-sum test, stratified
/// by block (van Elteren). A block that holds only one of the two is ignored; if every block is like that,
/// all values count as one block. In a single block, three values on either side are too few for an interval;
/// four suffice. Precondition: neither is empty.
Difference compare(const std::vector<Observation>& a, const std::vector<Observation>& b);

/// Returns true if the difference is at most `tie` and its 95 % interval, if there is one, ends below 1.25
/// times `tie`.
bool is_tie(const Difference& difference, double tie);

/// Returns true if the difference is at most `noise` and its 95 % interval contains 0 or less.
bool is_noise(const Difference& difference, double noise);

/// Returns how far two equal candidates appear to differ when both are visited in `blocks` blocks: the
/// half-width of the 95 % interval of that difference.
///
/// From the median of each candidate in each block it removes the candidate's and the block's own level
/// (two-way layout), and takes the median absolute deviation of what remains, so that one odd visit does not
/// make everything look uncertain. Returns 0 if no two candidates share two blocks.
double noise_between_blocks(const std::vector<std::vector<Observation>>& candidates, int blocks);

}  // namespace zf
