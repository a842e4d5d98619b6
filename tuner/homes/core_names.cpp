#include "homes/core_names.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "homes/index.hpp"

namespace zf {
namespace {

/// Returns where a home lies: the mean of its cores, if it had all of the batches' middles.
double middle_of(const Domains& domains, const std::vector<int>& counts) {
  double sum = 0;
  int cores = 0;
  for (std::size_t batch = 0; batch < counts.size(); ++batch) {
    const std::vector<int>& all = domains.batches[batch].cores;
    sum += counts[batch] * (all.front() + all.back());
    cores += counts[batch];
  }
  return sum / cores;
}

}  // namespace

Division named_cores(const Domains& domains, const std::vector<std::vector<int>>& counts) {
  std::vector<double> middles;
  for (const std::vector<int>& of_rank : counts) middles.push_back(middle_of(domains, of_rank));
  std::vector<int> order(counts.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return middles[at(a)] < middles[at(b)]; });

  Division division(counts.size());
  for (std::size_t batch = 0; batch < domains.batches.size(); ++batch) {
    auto core = domains.batches[batch].cores.begin();
    for (const int rank : order) {
      const int cores = counts[at(rank)][batch];
      division[at(rank)].insert(division[at(rank)].end(), core, core + cores);
      core += cores;
    }
  }
  for (std::vector<int>& home : division) std::sort(home.begin(), home.end());
  for (int a = 0; a < domains.ranks(); ++a) {
    for (int b = a + 1; b < domains.ranks(); ++b) {
      const auto place = [&](int rank) { return std::pair(middles[at(rank)], division[at(rank)].front()); };
      if (!domains.in_one_place(a, b) || place(a) < place(b)) continue;
      std::swap(division[at(a)], division[at(b)]);
      std::swap(middles[at(a)], middles[at(b)]);
    }
  }
  return division;
}

}  // namespace zf
