#include "homes/domains.hpp"

#include <algorithm>
#include <set>

#include "homes/index.hpp"

namespace zf {
namespace {

/// Returns the CPUs of the cores that lie in `place`: a package, or a NUMA node.
template <class Member, class Id>
CpuSet cpus_of(const Topology& topology, Member Core::*member, Id place) {
  CpuSet cpus;
  for (const Core& core : topology.cores) {
    if (core.*member == place) cpus |= core.cpus;
  }
  return cpus;
}

/// Returns the package that a rank prefers: the one it names, or that of its node.
std::optional<int> preferred_package(const Topology& topology, const Preference& preference) {
  if (preference.package || !preference.near) return preference.package;
  const auto core = std::find_if(topology.cores.begin(), topology.cores.end(),
                                 [&](const Core& c) { return c.node == preference.near; });
  return core == topology.cores.end() ? std::nullopt : std::optional(core->package);
}

/// The allowed CPUs of a rank's place; empty if any place will do.
struct Place {
  CpuSet cpus;
  bool is_package_only = false;
};

Place place_of(const Topology& topology, const CpuSet& allowed, const Preference& preference) {
  CpuSet near = preference.cpus & allowed;
  if (near.empty() && preference.near) near = cpus_of(topology, &Core::node, *preference.near) & allowed;
  if (!near.empty()) return {near};
  const auto package = preferred_package(topology, preference);
  return {package ? cpus_of(topology, &Core::package, *package) & allowed : CpuSet(), package.has_value()};
}

/// Returns for each rank the domains of the packages that its place has domains of.
std::vector<std::vector<bool>> packages_of_places(const Domains& domains) {
  std::vector<std::vector<bool>> result;
  for (const std::vector<bool>& near : domains.near) {
    std::set<int> packages;
    for (std::size_t domain = 0; domain < near.size(); ++domain) {
      if (near[domain]) packages.insert(domains.all[domain].package);
    }
    std::vector<bool>& own = result.emplace_back();
    for (std::size_t domain = 0; domain < near.size(); ++domain)
      own.push_back(packages.contains(domains.all[domain].package));
  }
  return result;
}

/// Returns the number of a value among those that were seen so far, and remembers it.
template <class Value>
int number_of(std::vector<Value>& seen, const Value& value) {
  const auto found = std::find(seen.begin(), seen.end(), value);
  const auto number = static_cast<int>(found - seen.begin());
  if (found == seen.end()) seen.push_back(value);
  return number;
}

}  // namespace

void add_batches(Domains& domains) {
  domains.batches.clear();
  domains.batch_of.clear();
  std::vector<std::optional<Node>> nodes;
  std::vector<int> packages;
  std::vector<int> groups;
  for (int index = 0; index < static_cast<int>(domains.all.size()); ++index) {
    const Domain& domain = domains.all[at(index)];
    for (int i = domain.first; i < domain.first + domain.size; ++i) {
      const HomeCore& core = domains.cores[at(i)];
      const int l3 = core.l3 < 0 ? -1 : number_of(groups, core.l3);
      auto batch = std::find_if(domains.batches.begin(), domains.batches.end(), [&](const CoreBatch& b) {
        return b.domain == index && b.l3 == l3 && b.kind == core.kind;
      });
      if (batch == domains.batches.end()) {
        batch = domains.batches.insert(batch, {index, number_of(nodes, core.node),
                                               number_of(packages, core.package), l3, core.kind, core.make});
      }
      batch->cores.push_back(i);
      domains.batch_of.push_back(static_cast<int>(batch - domains.batches.begin()));
    }
  }
}

bool Domains::has_near(int rank) const { return !near[at(rank)].empty() && !is_package_only[at(rank)]; }

bool Domains::in_one_place(int rank, int other) const {
  return near[at(rank)] == near[at(other)] && is_package_only[at(rank)] == is_package_only[at(other)];
}

Domains domains_of(const Topology& topology, const CpuSet& allowed,
                   const std::vector<Preference>& preferences) {
  Domains domains;
  std::vector<CpuSet> places;  // each once: ranks often share one
  std::vector<std::size_t> place_of_rank;
  for (const Preference& preference : preferences) {
    const Place place = place_of(topology, allowed, preference);
    domains.is_package_only.push_back(place.is_package_only);
    const auto known = std::find(places.begin(), places.end(), place.cpus);
    place_of_rank.push_back(static_cast<std::size_t>(known - places.begin()));
    if (known == places.end()) places.push_back(place.cpus);
  }

  struct Group {
    std::optional<Node> node;
    int package = 0;
    std::vector<bool> in_place;
    std::vector<HomeCore> cores = {};
  };
  std::vector<Group> groups;
  for (const Core& core : topology.cores) {
    const CpuSet cpus = core.cpus & allowed;
    if (cpus.empty()) continue;
    std::vector<bool> in_place;
    for (const CpuSet& place : places) in_place.push_back(place.intersects(cpus));
    auto group = std::find_if(groups.begin(), groups.end(), [&](const Group& g) {
      return g.node == core.node && g.package == core.package && g.in_place == in_place;
    });
    if (group == groups.end()) {
      group = groups.insert(groups.end(), Group{core.node, core.package, in_place});
    }
    const int make = make_of(topology.cpu_kinds, core.kind);
    group->cores.push_back({cpus, core.node, core.l3, core.kind, core.package, make});
  }

  domains.near.resize(preferences.size());
  for (const Group& group : groups) {
    domains.all.push_back({group.node, group.package, static_cast<int>(domains.cores.size()),
                           static_cast<int>(group.cores.size())});
    domains.cores.insert(domains.cores.end(), group.cores.begin(), group.cores.end());
    for (std::size_t rank = 0; rank < preferences.size(); ++rank) {
      if (places[place_of_rank[rank]].empty()) continue;
      domains.near[rank].push_back(group.in_place[place_of_rank[rank]]);
    }
  }
  domains.in_package = packages_of_places(domains);
  add_batches(domains);
  return domains;
}

bool in_same_node(const Domain& a, const Domain& b) { return a.package == b.package && a.node == b.node; }

}  // namespace zf
