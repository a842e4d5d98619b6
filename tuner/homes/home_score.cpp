#include "homes/home_score.hpp"

#include <algorithm>
#include <functional>
#include <set>
#include <tuple>

#include "homes/index.hpp"

namespace zf {
namespace {

template <class Value>
int count_distinct(const Domains& domains, const std::vector<int>& cores, Value value) {
  std::vector<decltype(value(domains.cores.front()))> seen;
  for (const int core : cores) {
    const auto one = value(domains.cores[at(core)]);
    // Neighbours in the list mostly agree.
    if ((seen.empty() || seen.back() != one) && std::find(seen.begin(), seen.end(), one) == seen.end())
      seen.push_back(one);
  }
  return static_cast<int>(seen.size());
}

void worst_first(std::vector<int>& ranks) { std::sort(ranks.begin(), ranks.end(), std::greater<>()); }

/// Returns by core the index of its domain.
std::vector<std::size_t> domain_by_core(const Domains& domains) {
  std::vector<std::size_t> result;
  for (std::size_t domain = 0; domain < domains.all.size(); ++domain)
    result.insert(result.end(), at(domains.all[domain].size), domain);
  return result;
}

/// Returns the number of runs of neighbouring cores.
int count_runs(std::vector<int> cores) {
  std::sort(cores.begin(), cores.end());
  int runs = 1;
  for (std::size_t i = 1; i < cores.size(); ++i) runs += cores[i] != cores[i - 1] + 1;
  return runs;
}

}  // namespace

bool HomeScore::spares_nodes_of(const HomeScore& other) const {
  return std::tie(nodes, packages) < std::tie(other.nodes, other.packages) &&
         std::tie(far_from_place, far_from_package) <= std::tie(other.far_from_place, other.far_from_package);
}

bool HomeScore::operator<(const HomeScore& other) const {
  const auto wishes = [](const HomeScore& s) {
    return std::tie(s.far_from_place, s.far_from_package, s.nodes, s.packages, s.l3_groups, s.fast_cores,
                    s.imbalance, s.runs);
  };
  return wishes(*this) < wishes(other);
}

HomeScore score_of(const Domains& domains, const Division& division) {
  HomeScore score;
  const std::vector<std::size_t> domain_of = domain_by_core(domains);
  const int even_share = static_cast<int>(domains.cores.size() / division.size());
  for (std::size_t rank = 0; rank < division.size(); ++rank) {
    const std::vector<int>& cores = division[rank];
    score.nodes.push_back(count_distinct(domains, cores, [](const HomeCore& core) { return core.node; }));
    score.packages.push_back(
        count_distinct(domains, cores, [](const HomeCore& core) { return core.package; }));
    score.l3_groups.push_back(count_distinct(domains, cores, [](const HomeCore& core) { return core.l3; }));
    score.runs.push_back(count_runs(cores));
    if (domains.near[rank].empty()) continue;
    int near = 0;
    int inside = 0;
    for (const int core : cores) {
      near += domains.near[rank][domain_of[at(core)]];
      inside += domains.in_package[rank][domain_of[at(core)]];
    }
    if (!domains.is_package_only[rank]) score.far_from_place.push_back(-near);
    score.far_from_package.push_back(-std::min(inside, even_share));
  }
  for (std::vector<int>* wish : {&score.far_from_place, &score.far_from_package, &score.nodes,
                                 &score.packages, &score.l3_groups, &score.runs})
    worst_first(*wish);

  std::set<int, std::greater<>> kinds;
  for (const HomeCore& core : domains.cores) kinds.insert(core.kind);
  if (!kinds.empty()) kinds.erase(std::prev(kinds.end()));  // every core is at least of the slowest kind
  for (const int kind : kinds) {
    std::vector<int> fast;
    for (const auto& cores : division) {
      fast.push_back(-static_cast<int>(std::count_if(
          cores.begin(), cores.end(), [&](int core) { return domains.cores[at(core)].kind >= kind; })));
    }
    worst_first(fast);
    score.fast_cores.insert(score.fast_cores.end(), fast.begin(), fast.end());
  }
  const auto smaller = [](const auto& a, const auto& b) { return a.size() < b.size(); };
  const auto [least, most] = std::minmax_element(division.begin(), division.end(), smaller);
  score.imbalance = static_cast<int>(most->size() - least->size());
  return score;
}

}  // namespace zf
