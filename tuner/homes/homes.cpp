#include "homes/homes.hpp"

#include <algorithm>
#include <cassert>
#include <functional>
#include <set>
#include <utility>

#include "homes/contiguous_shares.hpp"
#include "homes/core_cuts.hpp"
#include "homes/domains.hpp"
#include "homes/exchanges.hpp"
#include "homes/home_score.hpp"
#include "homes/home_shares.hpp"
#include "homes/index.hpp"
#include "homes/kind_swaps.hpp"
#include "launchers/core_shortage.hpp"

namespace zf {
namespace {

/// Says how a domain is cut into pieces.
enum class CutRule {
  kinds_dealt,    ///< each piece gets its share of fast and of slow cores; few L3 groups are split
  kinds_ignored,  ///< few L3 groups are split
  in_order,       ///< pieces are runs of neighbouring cores
};

/// Returns the mean domain of a rank's cores. Inside a domain the pieces are sorted by it, so that a rank's
/// piece lies on the side where the rest of the rank lies.
double mean_domain(const std::vector<Share>& shares) {
  double sum = 0;
  int cores = 0;
  for (const Share& share : shares) {
    sum += static_cast<double>(share.domain) * share.cores;
    cores += share.cores;
  }
  return sum / cores;
}

/// Turns the counts into cores, domain by domain.
Division divided(const Domains& domains, const std::vector<std::vector<Share>>& shares, CutRule rule) {
  struct Piece {
    std::size_t rank;
    std::size_t share;
  };
  std::vector<Division> cores(shares.size());
  for (std::size_t rank = 0; rank < shares.size(); ++rank) cores[rank].resize(shares[rank].size());

  for (int index = 0; index < static_cast<int>(domains.all.size()); ++index) {
    const Domain& domain = domains.all[at(index)];
    std::vector<Piece> pieces;
    for (std::size_t rank = 0; rank < shares.size(); ++rank) {
      for (std::size_t share = 0; share < shares[rank].size(); ++share) {
        if (shares[rank][share].domain == index) pieces.push_back({rank, share});
      }
    }
    std::stable_sort(pieces.begin(), pieces.end(), [&](Piece a, Piece b) {
      return mean_domain(shares[a.rank]) < mean_domain(shares[b.rank]);
    });
    std::vector<int> sizes;
    for (const Piece piece : pieces) sizes.push_back(shares[piece.rank][piece.share].cores);
    std::vector<int> groups;
    std::vector<int> kinds;
    for (int i = 0; i < domain.size; ++i) {
      groups.push_back(domains.cores[at(domain.first + i)].l3);
      kinds.push_back(domains.cores[at(domain.first + i)].kind);
    }

    const auto cuts = rule == CutRule::in_order      ? consecutive_pieces(sizes)
                      : rule == CutRule::kinds_dealt ? cut_cores(groups, kinds, sizes)
                                                     : cut_cores(groups, sizes);
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      for (const int core : cuts[i]) cores[pieces[i].rank][pieces[i].share].push_back(domain.first + core);
    }
  }

  Division division(shares.size());
  for (std::size_t rank = 0; rank < shares.size(); ++rank) {
    for (const auto& part : cores[rank])
      division[rank].insert(division[rank].end(), part.begin(), part.end());
  }
  return division;
}

/// Returns the sizes that runs of neighbouring cores may have if homes differ by two cores. A rank of fewer
/// than 8 cores gives none away for that: it would lose more than an eighth, and all ranks wait for the
/// slowest.
std::vector<RunSizes> wide_sizes(int cores, int ranks) {
  const int base = cores / ranks;
  std::vector<RunSizes> sizes;
  if (base >= 8) sizes.push_back({base - 1, base + 1});
  if (cores % ranks != 0) sizes.push_back({base, base + 2});
  return sizes;
}

/// Returns the best of a few divisions: homes counted domain by domain, or runs of neighbouring cores, both
/// after the ranks have exchanged what brings them nearer to their places; with
/// the kinds of cores dealt evenly in each domain, or few L3 groups split, or neither. Homes that differ by
/// two cores must keep a rank out of a node or a package.
Division best_division(const Domains& domains, const std::vector<std::optional<int>>& preferred) {
  const int cores = static_cast<int>(domains.cores.size());
  const int ranks = static_cast<int>(preferred.size());
  std::vector<CutRule> rules{CutRule::kinds_dealt};
  for (const HomeCore& core : domains.cores) {
    if (core.kind == domains.cores.front().kind) continue;
    rules.push_back(CutRule::kinds_ignored);
    break;
  }
  rules.push_back(CutRule::in_order);
  Division best;
  HomeScore best_score;
  const auto consider = [&](std::vector<std::vector<Share>> shares, auto is_better) {
    exchange_cores(domains, preferred, shares);
    for (const CutRule rule : rules) {
      Division division = divided(domains, shares, rule);
      if (rule == CutRule::kinds_dealt) swap_kinds(domains, division);
      HomeScore score = score_of(domains, division);
      if (!best.empty() && !is_better(score, best_score)) continue;
      best = std::move(division);
      best_score = std::move(score);
    }
  };

  consider(domain_shares(domains.all, preferred), std::less<>());
  if (ranks == 1) return best;
  const RunSizes even{cores / ranks, (cores + ranks - 1) / ranks};
  if (const auto shares = contiguous_shares(domains, preferred, even)) consider(*shares, std::less<>());
  const auto spares = [](const HomeScore& a, const HomeScore& b) { return a.spares_nodes_of(b); };
  for (const RunSizes sizes : wide_sizes(cores, ranks)) {
    if (const auto shares = contiguous_shares(domains, preferred, sizes)) consider(*shares, spares);
  }
  return best;
}

/// Sorts the homes of ranks without a preference by the topological order of their first cores.
void sort_without_preference(Division& division, const std::vector<std::optional<int>>& preferred) {
  std::vector<std::size_t> ranks;
  Division free;
  for (std::size_t rank = 0; rank < division.size(); ++rank) {
    if (preferred[rank]) continue;
    ranks.push_back(rank);
    free.push_back(division[rank]);
  }
  std::sort(free.begin(), free.end(), [](const auto& a, const auto& b) { return a.front() < b.front(); });
  for (std::size_t i = 0; i < ranks.size(); ++i) division[ranks[i]] = free[i];
}

/// Returns the nodes that the cores of the home's packages belong to.
NodeSet nodes_of_packages(const Home& home, const Topology& topology) {
  std::set<int> packages;
  for (const HomeCore& core : home.cores) packages.insert(core.package);
  NodeSet nodes;
  for (const Core& core : topology.cores) {
    if (core.node && packages.contains(core.package)) nodes.insert(*core.node);
  }
  return nodes;
}

}  // namespace

CpuSet Home::cpus() const {
  if (!shared_cpus.empty()) return shared_cpus;
  std::vector<Pu> pus;
  for (const HomeCore& core : cores) pus.insert(pus.end(), core.cpus.begin(), core.cpus.end());
  return CpuSet(std::move(pus));
}

/// Returns the first of these sets that is not empty, all of them allowed nodes with memory: the home's own
/// nodes (where the nodes contradict, all of plain memory); the others of its packages; nodes that have CPUs;
/// nodes near the home (here the user allows only nodes without CPUs); any node. Persistent memory (NVM)
/// counts only if nothing else is allowed.
/// If all are empty, returns every allowed node. If no node has a size (a description that gives none), the
/// sizes are unknown rather than zero, and every node counts as one with memory.
NodeSet mems_of(const Home& home, const Topology& topology, const NodeSet& allowed) {
  NodeSet own;
  NodeSet with_cpus;
  NodeSet near;
  NodeSet with_memory;
  NodeSet any;
  const CpuSet cpus = home.cpus();
  const bool sizes_known = std::any_of(topology.nodes.begin(), topology.nodes.end(),
                                       [](const NumaNode& node) { return node.memory_bytes > 0; });
  for (const NumaNode& node : topology.nodes) {
    if ((sizes_known && node.memory_bytes == 0) || !allowed.contains(node.id)) continue;
    any.insert(node.id);
    if (node.subtype == "NVM") continue;
    with_memory.insert(node.id);
    if (topology.nodes_contradict && node.subtype.empty()) own.insert(node.id);
    if (node.local_cpus.intersects(cpus)) near.insert(node.id);
    if (node.is_cpuless()) continue;
    with_cpus.insert(node.id);
    const auto lives_there = [&](const HomeCore& core) { return core.node == node.id; };
    if (std::any_of(home.cores.begin(), home.cores.end(), lives_there)) own.insert(node.id);
  }
  if (!own.empty()) return own;
  const NodeSet in_package = with_cpus & nodes_of_packages(home, topology);
  for (const NodeSet& mems : {in_package, with_cpus, near, with_memory, any}) {
    if (!mems.empty()) return mems;
  }
  return allowed;
}

std::vector<Home> homes_of(const Topology& topology, const Allowed& allowed,
                           const std::vector<Preference>& preferences) {
  assert(!preferences.empty());
  const Domains domains = domains_of(topology, allowed.cpus, preferences);
  const std::size_t total = domains.cores.size();
  if (total < preferences.size()) throw too_few_cores(preferences.size(), total, allowed);

  const std::vector<std::optional<int>> preferred = preferred_domains(domains);
  Division division = best_division(domains, preferred);
  sort_without_preference(division, preferred);
  std::vector<Home> homes;
  for (const std::vector<int>& cores : division) {
    Home& home = homes.emplace_back();
    for (const int core : cores) home.cores.push_back(domains.cores[at(core)]);
    home.shared = home.cores.size() < 2;
    home.mems = mems_of(home, topology, allowed.mems);
  }
  return homes;
}

}  // namespace zf
