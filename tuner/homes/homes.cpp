#include "homes/homes.hpp"

#include <algorithm>
#include <cassert>
#include <cstdlib>
#include <set>
#include <tuple>

#include "base/format.hpp"
#include "homes/domains.hpp"
#include "homes/home_search.hpp"
#include "homes/index.hpp"
#include "launchers/core_shortage.hpp"

namespace zf {
namespace {

/// Sorts a rank's cores as Home says. Without a place, the domain with most of its cores is its own.
void sort_near_to_far(const Domains& domains, int rank, std::vector<int>& cores) {
  const auto domain_of = [&](int core) { return domains.batches[at(domains.batch_of[at(core)])].domain; };
  std::vector<int> counts(domains.all.size());
  for (const int core : cores) ++counts[at(domain_of(core))];
  const auto is_far = [&](const std::vector<std::vector<bool>>& places, int domain) {
    return !places[at(rank)].empty() && !places[at(rank)][at(domain)];
  };
  const auto rank_of_own = [&](int domain) {
    return std::tuple(is_far(domains.near, domain), is_far(domains.in_package, domain), -counts[at(domain)]);
  };
  int own = domain_of(cores.front());
  for (const int core : cores) {
    if (rank_of_own(domain_of(core)) < rank_of_own(own)) own = domain_of(core);
  }
  const Domain& home = domains.all[at(own)];
  const auto distance = [&](int core) {
    const int index = domain_of(core);
    const Domain& domain = domains.all[at(index)];
    return std::tuple(is_far(domains.near, index), is_far(domains.in_package, index), index != own,
                      domain.package != home.package, !in_same_node(domain, home), std::abs(index - own),
                      index, core);
  };
  std::sort(cores.begin(), cores.end(), [&](int a, int b) { return distance(a) < distance(b); });
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

FoundHomes find_homes(const Topology& topology, const Allowed& allowed,
                      const std::vector<Preference>& preferences) {
  assert(!preferences.empty());
  const Domains domains = domains_of(topology, allowed.cpus, preferences);
  const std::size_t total = domains.cores.size();
  if (total < preferences.size()) throw too_few_cores(preferences.size(), total, allowed);

  const FoundDivision found = find_division(domains);
  FoundHomes result;
  if (!found.is_settled) {
    result.note =
        format_text("the search for the best homes ended after {} comparisons: other homes may be better",
                    found.comparisons);
  }
  for (int rank = 0; rank < domains.ranks(); ++rank) {
    std::vector<int> cores = found.division[at(rank)];
    sort_near_to_far(domains, rank, cores);
    Home& home = result.homes.emplace_back();
    for (const int core : cores) home.cores.push_back(domains.cores[at(core)]);
    home.shared = home.cores.size() < 2;
    home.mems = mems_of(home, topology, allowed.mems);
  }
  return result;
}

std::vector<Home> homes_of(const Topology& topology, const Allowed& allowed,
                           const std::vector<Preference>& preferences) {
  return find_homes(topology, allowed, preferences).homes;
}

}  // namespace zf
