#include "homes/core_cuts.hpp"

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <set>

#include "homes/index.hpp"

namespace zf {
namespace {

using Pieces = std::vector<std::vector<int>>;

/// Returns how many L3 groups have cores in more than one piece.
int split_groups(const std::vector<int>& groups, const Pieces& pieces) {
  std::map<int, std::set<const void*>> owners;
  for (const auto& piece : pieces) {
    for (const int core : piece) owners[groups[at(core)]].insert(&piece);
  }
  return static_cast<int>(
      std::count_if(owners.begin(), owners.end(), [](const auto& owner) { return owner.second.size() > 1; }));
}

/// Returns the whole groups whose sizes add up to the largest sum that is at most `wanted`. Of
/// several solutions it prefers the earliest groups.
std::vector<int> whole_groups(const std::vector<std::vector<int>>& free, int wanted) {
  // last[sum] is the group that completed this sum, and before[sum] the sum without that group.
  std::vector<std::optional<int>> last(at(wanted) + 1);
  std::vector<int> before(at(wanted) + 1);
  std::vector<int> sums{0};
  for (int group = 0; group < static_cast<int>(free.size()); ++group) {
    const int size = static_cast<int>(free[at(group)].size());
    if (size == 0) continue;
    const std::vector<int> known = sums;
    for (const int sum : known) {
      const int reached = sum + size;
      if (reached > wanted || last[at(reached)]) continue;
      last[at(reached)] = group;
      before[at(reached)] = sum;
      sums.push_back(reached);
    }
  }
  std::vector<int> chosen;
  for (int sum = *std::max_element(sums.begin(), sums.end()); sum > 0; sum = before[at(sum)]) {
    chosen.push_back(*last[at(sum)]);
  }
  return chosen;
}

/// Fills the largest piece first: with as many whole groups as fit, and the rest from the smallest group that
/// has enough.
Pieces pieces_by_group(const std::vector<int>& groups, const std::vector<int>& sizes) {
  std::map<int, std::vector<int>> members;
  for (int core = 0; core < static_cast<int>(groups.size()); ++core)
    members[groups[at(core)]].push_back(core);
  std::vector<std::vector<int>> free;
  for (const auto& [group, cores] : members) free.push_back(cores);
  std::sort(free.begin(), free.end());

  std::vector<int> order(sizes.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return sizes[at(a)] > sizes[at(b)]; });

  Pieces pieces(sizes.size());
  for (const int index : order) {
    std::vector<int>& piece = pieces[at(index)];
    int wanted = sizes[at(index)];
    const auto take = [&](std::vector<int>& group, int count) {
      piece.insert(piece.end(), group.begin(), group.begin() + count);
      group.erase(group.begin(), group.begin() + count);
      wanted -= count;
    };
    for (const int group : whole_groups(free, wanted))
      take(free[at(group)], static_cast<int>(free[at(group)].size()));
    if (wanted > 0) {
      // Every remaining group is larger than `wanted`; a smaller one would have been taken whole.
      const auto tightest = std::min_element(free.begin(), free.end(), [](const auto& a, const auto& b) {
        return b.empty() || (!a.empty() && a.size() < b.size());
      });
      assert(static_cast<int>(tightest->size()) > wanted);
      take(*tightest, wanted);
    }
    std::sort(piece.begin(), piece.end());
  }
  return pieces;
}

/// Returns `cores` divided in proportion to what each piece wants, by largest remainders: 6 for pieces of 5,
/// 5 and 4 become 2, 2 and 2. No piece gets more than it wants. Precondition: together they want at least
/// that many.
std::vector<int> apportioned(int cores, const std::vector<int>& wanted) {
  const std::int64_t all = std::accumulate(wanted.begin(), wanted.end(), 0);
  assert(cores <= all);
  if (all == 0) return wanted;
  std::vector<int> parts;
  std::vector<int> order(wanted.size());
  std::iota(order.begin(), order.end(), 0);
  int left = cores;
  for (const int count : wanted) {
    parts.push_back(static_cast<int>(cores * std::int64_t{count} / all));
    left -= parts.back();
  }
  const auto remainder = [&](int piece) { return cores * std::int64_t{wanted[at(piece)]} % all; };
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return remainder(a) > remainder(b); });
  for (int i = 0; i < left; ++i) ++parts[at(order[at(i)])];
  return parts;
}

}  // namespace

Pieces consecutive_pieces(const std::vector<int>& sizes) {
  Pieces pieces;
  int next = 0;
  for (const int size : sizes) {
    std::vector<int>& piece = pieces.emplace_back(at(size));
    std::iota(piece.begin(), piece.end(), next);
    next += size;
  }
  return pieces;
}

Pieces cut_cores(const std::vector<int>& groups, const std::vector<int>& sizes) {
  assert(std::accumulate(sizes.begin(), sizes.end(), 0) == static_cast<int>(groups.size()));
  const Pieces in_order = consecutive_pieces(sizes);
  const int split = split_groups(groups, in_order);
  if (split == 0) return in_order;
  const Pieces by_group = pieces_by_group(groups, sizes);
  return split_groups(groups, by_group) < split ? by_group : in_order;
}

Pieces cut_cores(const std::vector<int>& groups, const std::vector<int>& kinds,
                 const std::vector<int>& sizes) {
  std::map<int, std::vector<int>, std::greater<>> members;  // the fastest first
  for (int core = 0; core < static_cast<int>(kinds.size()); ++core) members[kinds[at(core)]].push_back(core);
  Pieces pieces(sizes.size());
  std::vector<int> wanted = sizes;
  for (const auto& [kind, cores] : members) {
    std::vector<int> groups_of_kind;
    for (const int core : cores) groups_of_kind.push_back(groups[at(core)]);
    const std::vector<int> parts = apportioned(static_cast<int>(cores.size()), wanted);
    const Pieces cuts = cut_cores(groups_of_kind, parts);
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      for (const int core : cuts[i]) pieces[i].push_back(cores[at(core)]);
      wanted[i] -= parts[i];
    }
  }
  for (auto& piece : pieces) std::sort(piece.begin(), piece.end());
  return pieces;
}

}  // namespace zf
