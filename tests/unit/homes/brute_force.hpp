// The best of all divisions of a small machine: it tries every one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include "homes/home_scale.hpp"
#include "homes/home_score.hpp"
#include "homes/index.hpp"

namespace zf {

class BruteForce {
 public:
  explicit BruteForce(const Domains& domains)
      : domains_(domains),
        scale_(domains),
        sizes_(home_sizes(static_cast<int>(domains.cores.size()), domains.ranks())),
        held_(domains.near.size(), std::vector<int>(domains.batches.size())),
        counts_(domains.near.size(), scale_.nothing()) {
    assign(0, 0, size_of(0));
  }

  Division best() const {
    Division division(best_.size());
    for (int batch = 0; batch < static_cast<int>(domains_.batches.size()); ++batch) {
      auto core = domains_.batches[at(batch)].cores.begin();
      for (std::size_t rank = 0; rank < best_.size(); ++rank) {
        const int cores = best_[rank][at(batch)];
        division[rank].insert(division[rank].end(), core, core + cores);
        core += cores;
      }
    }
    return division;
  }
  std::int64_t tried() const { return tried_; }

 private:
  /// Gives each rank from this one on every number of the cores that are left of a batch: cores of one batch
  /// are alike.
  void assign(int batch, int rank, int left) {
    if (batch == static_cast<int>(domains_.batches.size())) return try_division();
    const int last = domains_.ranks() - 1;
    for (int cores = rank == last ? left : 0; cores <= left; ++cores) {
      if (counts_[at(rank)].cores + cores > sizes_.most) break;
      give(rank, batch, cores);
      if (rank < last) {
        assign(batch, rank + 1, left - cores);
      } else {
        assign(batch + 1, 0, size_of(batch + 1));
      }
      give(rank, batch, -cores);
    }
  }

  int size_of(int batch) const {
    return at(batch) < domains_.batches.size() ? static_cast<int>(domains_.batches[at(batch)].cores.size())
                                               : 0;
  }

  void give(int rank, int batch, int cores) {
    held_[at(rank)][at(batch)] += cores;
    scale_.add(counts_[at(rank)], rank, batch, cores);
  }

  void try_division() {
    const auto [least, most] =
        std::minmax_element(counts_.begin(), counts_.end(),
                            [](const HomeCount& a, const HomeCount& b) { return a.cores < b.cores; });
    if (least->cores < sizes_.least || most->cores - least->cores > kMostDifference) return;
    ++tried_;
    std::vector<std::vector<int>> lists(scale_.numbers().size());
    std::vector<int> numbers;
    for (int rank = 0; rank < domains_.ranks(); ++rank) {
      scale_.write(counts_[at(rank)], rank, numbers);
      for (std::size_t i = 0; i < numbers.size(); ++i) lists[i].push_back(numbers[i]);
    }
    for (std::vector<int>& list : lists) std::sort(list.begin(), list.end(), std::greater<>());
    if (!best_.empty() && lists >= best_lists_) return;
    best_lists_ = std::move(lists);
    best_ = held_;
  }

  const Domains& domains_;
  HomeScale scale_;
  HomeSizes sizes_;
  std::vector<std::vector<int>> held_;  ///< cores by rank and batch
  std::vector<HomeCount> counts_;
  std::vector<std::vector<int>> best_;
  std::vector<std::vector<int>> best_lists_;
  std::int64_t tried_ = 0;
};

}  // namespace zf
