// How long each of several candidates takes that were visited in turn, and how certain their differences are.
// Pure.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <vector>

#include "compare/difference.hpp"

namespace zf {

/// One visit to a candidate: its samples have the set-up of the visit in common, so they count as one value,
/// their median. Visits of one block came one after the other, so that a slow drift of the machine affects
/// them alike.
struct Visit {
  std::size_t candidate = 0;  ///< index from 0
  int block = 0;
  double value = 0;  ///< above 0
};

/// The levels of candidates, without the levels of the blocks in which they were visited.
///
/// Fits log(value) = candidate + block + noise by least squares (the two-way layout of an incomplete block
/// design; Scheffé, The Analysis of Variance, 1959, chapter 5). All candidates share one noise, which is that
/// between visits.
///
/// Visits that the others contradict are left out: in these something else ran. They are found one by one by
/// the largest externally studentized residual (Cook and Weisberg, Residuals and Influence, 1982, 2.2) as in
/// Rosner's procedure for several outliers (Technometrics 25, 1983), if its normal deviate (Wallace, Annals
/// of Mathematical Statistics 30, 1959) is above 4.5.
class Levels {
 public:
  /// `candidates` is the number of candidates. Some may have no visit.
  Levels(std::vector<Visit> visits, std::size_t candidates);

  std::size_t candidates() const { return visits_.size(); }
  bool has(std::size_t candidate) const { return visits_[candidate] != 0; }
  /// Returns how many visits the candidate has, without those left out.
  int visits(std::size_t candidate) const { return visits_[candidate]; }
  /// Returns the level in the unit of the values; infinity for a candidate without a visit.
  double of(std::size_t candidate) const { return level_[candidate]; }

  /// Returns how much longer `b` takes than `a`. The interval is that of Student's t. It is unknown if no
  /// chain of common blocks connects the two, or if no candidate was visited often enough to know the noise.
  Difference difference(std::size_t a, std::size_t b) const;

  /// Returns the standard deviation of the noise between visits, relative; 0 if it is unknown.
  double noise() const { return noise_; }
  /// Returns the degrees of freedom of the noise; 0 if it is unknown.
  int freedom() const { return freedom_; }
  /// Returns how many visits were left out.
  int left_out() const { return left_out_; }
  /// Returns the positions of the other visits among those given, ascending.
  const std::vector<std::size_t>& kept() const { return kept_; }

  /// A square matrix, row by row.
  struct Matrix {
    explicit Matrix(std::size_t n) : size(n), values(n * n) {}
    double& at(std::size_t row, std::size_t column) { return values[row * size + column]; }
    double at(std::size_t row, std::size_t column) const { return values[row * size + column]; }
    std::size_t size;
    std::vector<double> values;
  };
  struct Block {
    std::vector<std::size_t> visits;  ///< indexes
    double sum = 0;                   ///< of the logarithms
  };

 private:
  void fit(const std::vector<Visit>& visits, std::size_t candidates);
  void take_residuals(const std::vector<Visit>& visits, const std::map<int, Block>& blocks,
                      const std::vector<double>& effect, const Matrix& covariance);
  /// The visit that the others contradict most, and the normal deviate of that.
  struct Suspect {
    std::size_t visit = 0;
    double deviate = 0;
  };
  std::optional<Suspect> suspect_of(const std::vector<Visit>& visits) const;

  std::vector<int> visits_;
  std::vector<double> level_;
  std::vector<std::size_t> part_;   ///< candidates of one part are connected by common blocks
  std::vector<double> covariance_;  ///< of the levels, for a noise of 1; row by row
  std::vector<double> residual_;    ///< of each visit, in logarithms
  std::vector<double> leverage_;    ///< of each visit: its share in its own fitted value
  double squares_ = 0;              ///< of the residuals, summed
  double noise_ = 0;
  int freedom_ = 0;
  int left_out_ = 0;
  std::vector<std::size_t> kept_;
};

/// Returns the 97.5 % quantile of Student's t with that many degrees of freedom (at least 1).
double student_t(int freedom);

}  // namespace zf
