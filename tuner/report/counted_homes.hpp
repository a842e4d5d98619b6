// The homes of a plan, counted by the points by which homes are cut. Pure.
#pragma once

#include <string>
#include <vector>

#include "homes/domains.hpp"
#include "homes/home_scale.hpp"
#include "plan/plan.hpp"
#include "topology/topology.hpp"

namespace zf {

class CountedHomes {
 public:
  /// GPUs are those of the plan; a GPU without CPUs has those of its node. Precondition: the plan
  /// is for the topology's class.
  CountedHomes(const Plan& plan, const Topology& topology);
  CountedHomes(const CountedHomes&) = delete;
  CountedHomes& operator=(const CountedHomes&) = delete;

  const HomeScale& scale() const { return scale_; }
  int cores_of(int rank) const { return counts_[static_cast<std::size_t>(rank)].cores; }

  /// Returns the points of which something is known for some rank, each with its first number: of several
  /// makes of fast cores that of the fastest.
  std::vector<HomeNumber> known_numbers() const;

  /// Returns what the rank's home has: "8"; "-" if it is not known.
  std::string in_words(const HomeNumber& number, int rank) const;

  /// Returns how much the home lacks of what it could have if the rank were alone, or has too much of; 0:
  /// nothing.
  int missing(const HomeNumber& number, int rank) const;

 private:
  int number_of(const HomeNumber& number, int rank) const;

  Domains domains_;
  HomeScale scale_;
  std::vector<HomeCount> counts_;
};

}  // namespace zf
