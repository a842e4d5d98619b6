// Counts homes by the points of home_points.hpp, and keeps the count while cores come and go. Pure.
#pragma once

#include <vector>

#include "homes/domains.hpp"
#include "homes/home_points.hpp"

namespace zf {

/// A number that every home has. Most points have one number. The points of fast cores have one for each step
/// between makes (or kinds): the count of cores of the make (or kind) `level` or a faster one.
struct HomeNumber {
  HomePoint point;
  int level = 0;
};

/// What the numbers of one home are made of.
struct HomeCount {
  int cores = 0;
  int near_gpu = 0;
  int in_package = 0;
  int nodes = 0;
  int packages = 0;
  int l3_groups = 0;
  int closeness = 0;                 ///< the sum of the squares of `of_node` and `of_package`
  std::vector<int> of_node = {};     ///< cores by CoreBatch::node
  std::vector<int> of_package = {};  ///< the same for packages and L3 groups
  std::vector<int> of_l3 = {};
  std::vector<int> fast = {};  ///< cores by HomeScale's steps
};

class HomeScale {
 public:
  /// Precondition: `domains` outlives this object.
  explicit HomeScale(const Domains& domains);

  /// Returns which numbers homes have, the most important first.
  const std::vector<HomeNumber>& numbers() const { return numbers_; }

  /// Returns the count of a home without cores.
  HomeCount nothing() const;

  /// Returns the count of these cores as the home of a rank.
  HomeCount count_of(int rank, const std::vector<int>& cores) const;

  /// Adds cores of a batch to a rank's home, or takes them away if `cores` is negative.
  void add(HomeCount& count, int rank, int batch, int cores) const;

  /// Returns the number of this index in numbers() that a rank's home has. Less is better: where more cores
  /// are better, it is negative. Where the point does not count for the rank it is 0.
  int number(std::size_t index, const HomeCount& count, int rank) const;

  /// Writes all numbers of a rank's home, in the order of numbers().
  void write(const HomeCount& count, int rank, std::vector<int>& numbers) const;

  /// Returns whether a point counts for a rank. A GPU's points need a rank with a GPU. Nodes, L3
  /// groups and fast cores count if the machine has NUMA nodes, L3 caches, or cores that differ. The other
  /// points always count.
  bool counts_for(HomePoint point, int rank) const;

  /// Returns the best number that a home of so many cores could have if the rank were alone. For
  /// sizes and fast cores it is an even share, because a rank gets more only at the cost of others.
  int best_alone(const HomeNumber& number, int rank, int cores) const;

 private:
  /// Where a batch lies, seen from a rank.
  struct Place {
    int is_near = 0;  ///< 0 or 1
    int is_in_package = 0;
  };

  int step_of(const HomeNumber& number) const;
  bool is_of_step(int step, int batch) const;

  const Domains& domains_;
  int even_share_;
  std::vector<HomeNumber> numbers_;
  std::vector<HomeNumber> steps_;  ///< between makes, and then between kinds
  std::vector<int> step_of_number_;
  std::vector<std::vector<int>> steps_of_batch_;  ///< indexes into steps_
  std::vector<char> has_near_;                    ///< by rank
  std::vector<std::vector<Place>> places_;        ///< by rank and batch
  HomeCount all_;                                 ///< all cores, as one home
  std::vector<int> near_gpu_;                     ///< by rank: how many there are
  std::vector<int> in_package_;
};

}  // namespace zf
