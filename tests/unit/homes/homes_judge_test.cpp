// Compares homes with the best of all divisions of small machines. The judge shares no code with homes_of():
// it counts how many cores of which node a rank gets, in every way there is.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "random_machine.hpp"

namespace zf {
namespace {

/// The points that an expert looks at. Less is better. In each list the worst rank comes first.
struct Verdict {
  std::vector<int> far;       ///< minus the cores near the rank's GPU
  std::vector<int> outside;   ///< minus the cores in the package of the rank's GPU, up to an even share
  std::vector<int> nodes;     ///< NUMA nodes touched
  std::vector<int> packages;  ///< packages touched
  auto operator<=>(const Verdict&) const = default;
};

/// A NUMA node, or the part of one that lies in one package.
struct SmallNode {
  int cores = 0;
  int package = 0;
  int node = 0;
};

/// The number of cores of each rank on each node.
using Counts = std::vector<std::vector<int>>;

Verdict verdict_on(const Counts& counts, const std::vector<SmallNode>& nodes, const std::vector<int>& near) {
  Verdict verdict;
  int all_cores = 0;
  for (const SmallNode& node : nodes) all_cores += node.cores;
  const int even_share = all_cores / static_cast<int>(near.size());
  for (std::size_t rank = 0; rank < counts.size(); ++rank) {
    std::map<int, int> packages;
    std::set<int> touched;
    for (std::size_t node = 0; node < nodes.size(); ++node) {
      if (counts[rank][node] == 0) continue;
      touched.insert(nodes[node].node);
      packages[nodes[node].package] += counts[rank][node];
    }
    if (near[rank] >= 0) {
      const auto own = static_cast<std::size_t>(near[rank]);
      verdict.far.push_back(-counts[rank][own]);
      verdict.outside.push_back(-std::min(packages[nodes[own].package], even_share));
    }
    verdict.nodes.push_back(static_cast<int>(touched.size()));
    verdict.packages.push_back(static_cast<int>(
        std::count_if(packages.begin(), packages.end(), [](const auto& p) { return p.second > 0; })));
  }
  for (auto* list : {&verdict.far, &verdict.outside, &verdict.nodes, &verdict.packages})
    std::sort(list->begin(), list->end(), std::greater<>());
  return verdict;
}

/// Tries every division into homes that differ by at most one core.
class Judge {
 public:
  Judge(std::vector<SmallNode> nodes, std::vector<int> near)
      : nodes_(std::move(nodes)),
        near_(std::move(near)),
        counts_(near_.size(), std::vector<int>(nodes_.size())) {
    for (const SmallNode& node : nodes_) {
      left_.push_back(node.cores);
      total_ += node.cores;
    }
    give(0, 0, 0);
  }
  const Verdict& best() const { return *best_; }

 private:
  int ranks() const { return static_cast<int>(near_.size()); }

  void give(std::size_t rank, std::size_t node, int held) {
    if (rank == near_.size()) {
      if (std::any_of(left_.begin(), left_.end(), [](int left) { return left > 0; })) return;
      Verdict verdict = verdict_on(counts_, nodes_, near_);
      if (!best_ || verdict < *best_) best_ = std::move(verdict);
      return;
    }
    const int base = total_ / ranks();
    const int most = base + (total_ % ranks() == 0 ? 0 : 1);
    if (node == nodes_.size()) {
      if (held >= base) give(rank + 1, 0, 0);
      return;
    }
    for (int count = 0; count <= left_[node] && held + count <= most; ++count) {
      counts_[rank][node] = count;
      left_[node] -= count;
      give(rank, node + 1, held + count);
      left_[node] += count;
    }
    counts_[rank][node] = 0;
  }

  std::vector<SmallNode> nodes_;
  std::vector<int> near_;
  Counts counts_;
  std::vector<int> left_;
  int total_ = 0;
  std::optional<Verdict> best_;
};

/// A small machine with any number of allowed cores in each node, ranks, and a GPU for all of them or for
/// none.
struct SmallCase {
  Topology topology;
  Allowed allowed;
  std::vector<Preference> preferences;
  std::vector<SmallNode> nodes;
  std::vector<int> near;  ///< by rank, the index of a node; -1: no GPU
};

SmallCase small_case(unsigned seed) {
  Dice dice(seed);
  SmallCase c;
  const int per_package = dice(1, 2);
  c.topology = make_topology({.packages = dice(1, 2), .nodes_per_package = per_package, .cores_per_l3 = 5});
  const int parts = static_cast<int>(c.topology.nodes.size());
  const bool interleaved = dice(0, 3) == 0 && per_package == 1;  // one node over all packages
  for (int part = 0; part < parts; ++part) {
    c.nodes.push_back({dice(1, 5), part / per_package, interleaved ? 0 : part});
    int left = c.nodes.back().cores;
    for (const Pu pu : c.topology.nodes[static_cast<std::size_t>(part)].cpus) {
      if (left-- > 0) c.allowed.cpus.insert(pu);
    }
  }
  if (interleaved) {
    c.topology.nodes.resize(1);
    c.topology.nodes[0].cpus = c.topology.cpus;
    for (Core& core : c.topology.cores) core.node = c.topology.nodes[0].id;
  }
  c.allowed.mems = node_ids(c.topology);

  const int total = static_cast<int>(c.allowed.cpus.size());
  c.preferences.resize(static_cast<std::size_t>(dice(1, std::min(4, total))));
  const bool gpus = !interleaved && dice(0, 1) == 0;
  for (Preference& preference : c.preferences) {
    c.near.push_back(gpus ? dice(0, parts - 1) : -1);
    if (gpus) preference.near = Node{c.near.back()};
  }
  return c;
}

std::size_t part_of(const SmallCase& c, const HomeCore& core) {
  for (std::size_t part = 0; part < c.nodes.size(); ++part) {
    if (c.nodes[part].package == core.package && c.nodes[part].node == core.node->os_index) return part;
  }
  return c.nodes.size();
}

std::string words_of(const SmallCase& c, const Counts& counts) {
  std::string words = "cores@package";
  for (const SmallNode& node : c.nodes) words += fmt::format(" {}@{}", node.cores, node.package);
  for (std::size_t rank = 0; rank < counts.size(); ++rank) {
    words += fmt::format("; rank {} near {} has", rank, c.near[rank]);
    for (const int count : counts[rank]) words += fmt::format(" {}", count);
  }
  return words;
}

TEST(HomesJudge, HardlyADivisionOfASmallMachineIsBetter) {
  constexpr int kCases = 3000 / ZF_FEWER;
  int worse = 0;
  for (unsigned seed = 0; seed < kCases; ++seed) {
    const SmallCase c = small_case(seed);
    Counts counts;
    for (const Home& home : homes_of(c.topology, c.allowed, c.preferences)) {
      counts.emplace_back(c.nodes.size());
      for (const HomeCore& core : home.cores) ++counts.back()[part_of(c, core)];
    }
    if (Judge(c.nodes, c.near).best() < verdict_on(counts, c.nodes, c.near)) {
      fmt::print("seed {}: {}\n", seed, words_of(c, counts));
      ++worse;
    }
  }
  EXPECT_LE(worse, 6) << "pairwise exchanges do not find every best division, but nearly every one";
}

}  // namespace
}  // namespace zf
