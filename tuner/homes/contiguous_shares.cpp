#include "homes/contiguous_shares.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>

#include "homes/index.hpp"

namespace zf {
namespace {

/// The costs of one run, the most important first: near cores that it lacks, NUMA nodes, packages, L3 groups,
/// odd sizes. Costs of runs are added and compared as a whole, so the best cuts of the first runs are a part
/// of the best cuts.
using Cost = std::array<std::int64_t, 5>;

Cost operator+(Cost a, const Cost& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  return a;
}

/// Returns a weight that grows so fast with `count` that the worst of up to 64 runs decides.
std::int64_t steep(int count) { return std::int64_t{1} << (6 * std::clamp(count - 1, 0, 8)); }

/// Counts what runs touch: `changes[i]` is the number of changes of a value before core i, in topological
/// order.
class Changes {
 public:
  template <class Value>
  Changes(const std::vector<HomeCore>& cores, Value value) : changes_(cores.size()) {
    for (std::size_t i = 1; i < cores.size(); ++i)
      changes_[i] = changes_[i - 1] + (value(cores[i]) == value(cores[i - 1]) ? 0 : 1);
  }
  int touched(int begin, int end) const { return changes_[at(end - 1)] - changes_[at(begin)] + 1; }

 private:
  std::vector<int> changes_;
};

/// The runs in progress, from the first core to the last.
class Cutter {
 public:
  Cutter(const Domains& domains, const std::vector<std::optional<int>>& preferences)
      : domains_(domains),
        preferences_(preferences),
        nodes_(domains.cores, [](const HomeCore& core) { return core.node; }),
        packages_(domains.cores, [](const HomeCore& core) { return core.package; }),
        groups_(domains.cores, [](const HomeCore& core) { return core.l3; }),
        near_before_(preferences.size()) {
    for (std::size_t rank = 0; rank < preferences.size(); ++rank) {
      if (!preferences[rank]) continue;
      std::vector<int>& before = near_before_[rank];
      before.push_back(0);
      for (std::size_t domain = 0; domain < domains.all.size(); ++domain) {
        for (int i = 0; i < domains.all[domain].size; ++i)
          before.push_back(before.back() + (domains.near[rank][domain] ? 1 : 0));
      }
    }
  }

  /// Returns the ends of the runs of `ranks`, in this order; nothing if the sizes do not fit.
  std::vector<int> ends(const std::vector<int>& ranks, RunSizes sizes) const {
    struct Step {
      Cost cost{};
      int begin = -1;  ///< -1: cannot be reached
    };
    const int cores = static_cast<int>(domains_.cores.size());
    std::vector<std::vector<Step>> best(ranks.size() + 1, std::vector<Step>(at(cores) + 1));
    best[0][0].begin = 0;
    for (std::size_t run = 0; run < ranks.size(); ++run) {
      for (int begin = 0; begin < cores; ++begin) {
        if (best[run][at(begin)].begin < 0) continue;
        for (int size = sizes.least; size <= sizes.most && begin + size <= cores; ++size) {
          const Cost cost = best[run][at(begin)].cost + cost_of(ranks[run], begin, begin + size, sizes.most);
          Step& step = best[run + 1][at(begin + size)];
          if (step.begin < 0 || cost < step.cost) step = {cost, begin};
        }
      }
    }
    std::vector<int> ends;
    int end = cores;
    for (std::size_t run = ranks.size(); run > 0; --run) {
      const int begin = best[run][at(end)].begin;
      if (begin < 0) return {};
      ends.insert(ends.begin(), end);
      end = begin;
    }
    return ends;
  }

 private:
  Cost cost_of(int rank, int begin, int end, int most) const {
    const std::int64_t size = end - begin;
    std::int64_t lacking = 0;
    if (preferences_[at(rank)]) {
      const std::vector<int>& before = near_before_[at(rank)];
      lacking = std::min(most, before.back()) - (before[at(end)] - before[at(begin)]);
    }
    return {lacking * lacking, steep(nodes_.touched(begin, end)), steep(packages_.touched(begin, end)),
            steep(groups_.touched(begin, end)), size * size};
  }

  const Domains& domains_;
  const std::vector<std::optional<int>>& preferences_;
  Changes nodes_;
  Changes packages_;
  Changes groups_;
  std::vector<std::vector<int>> near_before_;  ///< by rank and core: near cores before it
};

}  // namespace

std::optional<std::vector<std::vector<Share>>> contiguous_shares(
    const Domains& domains, const std::vector<std::optional<int>>& preferences, RunSizes sizes) {
  std::vector<int> ranks(preferences.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  std::stable_sort(ranks.begin(), ranks.end(),
                   [&](int a, int b) { return preferences[at(a)] < preferences[at(b)]; });
  const std::vector<int> ends = Cutter(domains, preferences).ends(ranks, sizes);
  if (ends.empty()) return std::nullopt;

  std::vector<std::vector<Share>> shares(preferences.size());
  int begin = 0;
  int domain = 0;
  for (std::size_t run = 0; run < ranks.size(); ++run) {
    for (; begin < ends[run]; ++domain) {
      const int domain_end = domains.all[at(domain)].first + domains.all[at(domain)].size;
      const int end = std::min(domain_end, ends[run]);
      shares[at(ranks[run])].push_back({domain, end - begin});
      begin = end;
      if (end < domain_end) break;
    }
  }
  for (std::size_t rank = 0; rank < shares.size(); ++rank)
    sort_near_to_far(domains.all, preferences[rank], shares[rank]);
  return shares;
}

}  // namespace zf
