// Medians, spreads, and what may be said about a difference: what a noisy machine allows. Pure.
#pragma once

#include <utility>
#include <vector>

namespace zf {

/// The q-quantile (0..1), linear between neighbours. Precondition: not empty.
double quantile(std::vector<double> values, double q);

inline double median(std::vector<double> values) { return quantile(std::move(values), 0.5); }

/// Interquartile range over median: 0 for fewer than two values. Precondition: not empty, median not 0.
double relative_spread(const std::vector<double>& values);

/// One measured time, and the block that it belongs to: what was measured in one block was measured side by
/// side, so that a slow drift of the machine hit it alike (a round of a sweep, a repetition of a trial).
struct Observation {
  int block = 0;
  double value = 0;  ///< above 0
};

/// How much longer b takes than a, relative to a: 0.05 is 5 % longer, -0.05 is 5 % shorter.
struct Difference {
  double estimate = 0;
  double low = 0;  ///< 95 % confidence; -1 and +infinity where there is too little to say
  double high = 0;
  double half_width() const { return (high - low) / 2; }
};

/// By ranks, so that outliers and odd distributions do no harm: the estimate is the median of all ratios b/a
/// within a block (Hodges and Lehmann), the interval inverts the rank-sum test, stratified by block (van
/// Elteren). Blocks that hold only one of the two say nothing; when all are like that, everything counts as
/// one block. Three values on either side in one block are too few for an interval; four suffice.
/// Precondition: neither is empty.
Difference compare(const std::vector<Observation>& a, const std::vector<Observation>& b);

/// Whether that is no difference, or too small a one: at most `tie`, and surely (95 %), where there is enough
/// to say so, within one and a quarter times that.
bool is_tie(const Difference& difference, double tie);

/// Whether that is nothing but noise: at most as much, and perhaps (95 %) not there at all.
bool is_noise(const Difference& difference, double noise);

/// What two visits disagree by: the half-width of a 95 % interval for the difference between two equal
/// candidates that were visited in `blocks` blocks. Judged by what is left of the candidates' medians in each
/// block when each candidate's and each block's own level is taken off (two-way layout), by the median
/// absolute deviation, so that one odd visit does not make all look uncertain. 0 where no two candidates
/// share two blocks.
double noise_between_blocks(const std::vector<std::vector<Observation>>& candidates, int blocks);

}  // namespace zf
