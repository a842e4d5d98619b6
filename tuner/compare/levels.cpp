#include "compare/levels.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <utility>

namespace zf {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
/// A visit is an outlier if its normal deviate is above this: among a hundred visits without outliers, one is
/// taken for one in 1,500 sweeps.
constexpr double kOutlier = 4.5;
/// At most this part of the visits is left out.
constexpr double kMostOutliers = 0.2;
/// With fewer degrees of freedom no visit is left out: little else could contradict it.
constexpr int kFreedomForOutliers = 4;
/// Stands for squares of 0: visits that agree to the last digit (simulated ones) are no evidence of outliers.
constexpr double kSmallestSquares = 1e-8;

using Matrix = Levels::Matrix;
using Block = Levels::Block;

/// Replaces a positive definite matrix by its inverse (Gauss and Jordan).
void invert(Matrix& matrix) {
  const std::size_t n = matrix.size;
  for (std::size_t pivot = 0; pivot < n; ++pivot) {
    const double scale = 1 / matrix.at(pivot, pivot);
    matrix.at(pivot, pivot) = 1;
    for (std::size_t column = 0; column < n; ++column) matrix.at(pivot, column) *= scale;
    for (std::size_t row = 0; row < n; ++row) {
      if (row == pivot) continue;
      const double factor = matrix.at(row, pivot);
      if (factor == 0) continue;
      matrix.at(row, pivot) = 0;
      for (std::size_t column = 0; column < n; ++column) {
        matrix.at(row, column) -= factor * matrix.at(pivot, column);
      }
    }
  }
}

std::map<int, Block> blocks_of(const std::vector<Visit>& visits) {
  std::map<int, Block> blocks;
  for (std::size_t i = 0; i < visits.size(); ++i) {
    Block& block = blocks[visits[i].block];
    block.visits.push_back(i);
    block.sum += std::log(visits[i].value);
  }
  return blocks;
}

/// Returns for each candidate the smallest candidate that common blocks connect with it.
std::vector<std::size_t> connected_parts(const std::vector<Visit>& visits, const std::map<int, Block>& blocks,
                                         std::size_t candidates) {
  std::vector<std::size_t> part(candidates);
  std::iota(part.begin(), part.end(), 0);
  for (bool changed = true; changed;) {
    changed = false;
    for (const auto& [number, block] : blocks) {
      std::size_t least = candidates;
      for (const std::size_t i : block.visits) least = std::min(least, part[visits[i].candidate]);
      for (const std::size_t i : block.visits) {
        std::size_t& mine = part[visits[i].candidate];
        changed = changed || mine != least;
        mine = least;
      }
    }
  }
  return part;
}

}  // namespace

double student_t(int freedom) {
  constexpr std::array<double, 31> kTable{0,     12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365,
                                          2.306, 2.262,  2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
                                          2.120, 2.110,  2.101, 2.093, 2.086, 2.080, 2.074, 2.069,
                                          2.064, 2.060,  2.056, 2.052, 2.048, 2.045, 2.042};
  assert(freedom >= 1);
  if (freedom < static_cast<int>(kTable.size())) return kTable[static_cast<std::size_t>(freedom)];
  return 1.960 + 2.45 / freedom;  // off by less than 0.001
}

Levels::Levels(std::vector<Visit> visits, std::size_t candidates) {
  fit(visits, candidates);
  // Outliers hide each other, so the search goes on after a visit that is none by itself: all that were taken
  // out before the last one that is an outlier beside the rest are outliers.
  kept_.resize(visits.size());
  std::iota(kept_.begin(), kept_.end(), 0);
  std::vector<Visit> rest = visits;
  std::vector<std::size_t> rest_kept = kept_;
  const std::size_t most = static_cast<std::size_t>(kMostOutliers * static_cast<double>(visits.size()));
  for (std::size_t taken = 1; taken <= most; ++taken) {
    const auto suspect = suspect_of(rest);
    if (!suspect) break;
    rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(suspect->visit));
    rest_kept.erase(rest_kept.begin() + static_cast<std::ptrdiff_t>(suspect->visit));
    fit(rest, candidates);
    if (suspect->deviate <= kOutlier) continue;
    visits = rest;
    kept_ = rest_kept;
    left_out_ = static_cast<int>(taken);
  }
  fit(visits, candidates);
}

void Levels::fit(const std::vector<Visit>& visits, std::size_t candidates) {
  visits_.assign(candidates, 0);
  level_.assign(candidates, kInfinity);
  const std::map<int, Block> blocks = blocks_of(visits);
  part_ = connected_parts(visits, blocks, candidates);

  // The normal equations of the candidates' effects, after the blocks' effects are eliminated. Their matrix
  // is singular by one constant per part, which adding 1 between all members of a part fixes at a mean of 0.
  Matrix information(candidates);
  std::vector<double> right(candidates);
  for (const Visit& visit : visits) {
    information.at(visit.candidate, visit.candidate) += 1;
    right[visit.candidate] += std::log(visit.value);
    ++visits_[visit.candidate];
  }
  for (const auto& [number, block] : blocks) {
    const auto size = static_cast<double>(block.visits.size());
    for (const std::size_t i : block.visits) {
      right[visits[i].candidate] -= block.sum / size;
      for (const std::size_t j : block.visits) {
        information.at(visits[i].candidate, visits[j].candidate) -= 1 / size;
      }
    }
  }
  int unknowns = static_cast<int>(blocks.size());
  for (std::size_t a = 0; a < candidates; ++a) {
    if (!has(a)) {
      information.at(a, a) = 1;
      continue;
    }
    if (part_[a] != a) ++unknowns;  // the effects of a part have one constant in common with its blocks
    for (std::size_t b = 0; b < candidates; ++b) {
      if (has(b) && part_[a] == part_[b]) information.at(a, b) += 1;
    }
  }
  invert(information);

  std::vector<double> effect(candidates);
  for (std::size_t a = 0; a < candidates; ++a) {
    for (std::size_t b = 0; b < candidates; ++b) effect[a] += information.at(a, b) * right[b];
  }
  std::vector<double> part_sum(candidates);
  std::vector<int> part_count(candidates);
  for (const Visit& visit : visits) {
    part_sum[part_[visit.candidate]] += std::log(visit.value) - effect[visit.candidate];
    ++part_count[part_[visit.candidate]];
  }
  for (std::size_t a = 0; a < candidates; ++a) {
    if (has(a)) level_[a] = std::exp(part_sum[part_[a]] / part_count[part_[a]] + effect[a]);
  }

  take_residuals(visits, blocks, effect, information);
  freedom_ = std::max(0, static_cast<int>(visits.size()) - unknowns);
  noise_ = freedom_ == 0 ? 0 : std::sqrt(squares_ / freedom_);
  covariance_ = std::move(information.values);
}

void Levels::take_residuals(const std::vector<Visit>& visits, const std::map<int, Block>& blocks,
                            const std::vector<double>& effect, const Matrix& covariance) {
  squares_ = 0;
  residual_.assign(visits.size(), 0);
  leverage_.assign(visits.size(), 0);
  for (const auto& [number, block] : blocks) {
    const auto size = static_cast<double>(block.visits.size());
    double mean = 0;
    std::map<std::size_t, double> share;  // of the block's mean, by candidate
    for (const std::size_t i : block.visits) {
      mean += (std::log(visits[i].value) - effect[visits[i].candidate]) / size;
      share[visits[i].candidate] -= 1 / size;
    }
    for (const std::size_t i : block.visits) {
      residual_[i] = std::log(visits[i].value) - effect[visits[i].candidate] - mean;
      squares_ += residual_[i] * residual_[i];
      std::map<std::size_t, double> row = share;  // of the design, without the block's effect
      row[visits[i].candidate] += 1;
      leverage_[i] = 1 / size;
      for (const auto& [x, at_x] : row) {
        for (const auto& [y, at_y] : row) leverage_[i] += at_x * covariance.at(x, y) * at_y;
      }
    }
  }
}

std::optional<Levels::Suspect> Levels::suspect_of(const std::vector<Visit>& visits) const {
  if (freedom_ < kFreedomForOutliers) return std::nullopt;
  std::optional<Suspect> suspect;
  const double freedom = freedom_ - 1;
  for (std::size_t i = 0; i < visits.size(); ++i) {
    const double free = 1 - leverage_[i];
    if (free < 1e-9) continue;  // nothing else says how long this candidate takes
    const double rest = std::max(squares_ - residual_[i] * residual_[i] / free, kSmallestSquares);
    const double student = residual_[i] * residual_[i] / free / rest * freedom;  // squared
    const double deviate =
        (8 * freedom + 1) / (8 * freedom + 3) * std::sqrt(freedom * std::log1p(student / freedom));
    if (!suspect || deviate > suspect->deviate) suspect = Suspect{i, deviate};
  }
  return suspect;
}

Difference Levels::difference(std::size_t a, std::size_t b) const {
  const double log_ratio = std::log(level_[b] / level_[a]);
  if (a == b) return {};
  Difference difference{std::expm1(log_ratio), -1, kInfinity};
  if (freedom_ == 0 || !has(a) || !has(b) || part_[a] != part_[b]) return difference;
  const std::size_t size = visits_.size();
  const double variance =
      covariance_[a * size + a] + covariance_[b * size + b] - 2 * covariance_[a * size + b];
  const double half = student_t(freedom_) * noise_ * std::sqrt(std::max(0.0, variance));
  difference.low = std::expm1(log_ratio - half);
  difference.high = std::expm1(log_ratio + half);
  return difference;
}

}  // namespace zf
