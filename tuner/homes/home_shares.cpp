#include "homes/home_shares.hpp"

#include <algorithm>
#include <cassert>
#include <cstdlib>
#include <map>
#include <numeric>
#include <tuple>

#include "homes/index.hpp"

namespace zf {
namespace {

/// The assignment in progress. With q = cores / ranks and r = cores % ranks, r ranks get q + 1 cores ("an
/// extra core") and the others q. Which ranks get an extra core is decided as late as possible.
class ShareAssignment {
 public:
  ShareAssignment(const std::vector<NodeCapacity>& nodes, const std::vector<std::optional<int>>& preferences)
      : nodes_(nodes),
        preferences_(preferences),
        ranks_(static_cast<int>(preferences.size())),
        whole_ranks_on_(nodes.size()),
        oversubscribed_(nodes.size()),
        shares_(preferences.size()),
        owed_(preferences.size()) {
    int total = 0;
    for (const NodeCapacity& node : nodes) {
      total += node.cores;
      cores_left_.push_back(node.cores);
    }
    assert(ranks_ >= 1 && total >= ranks_);
    base_cores_ = total / ranks_;
    ranks_with_extra_core_ = total % ranks_;
  }

  std::vector<std::vector<Share>> result() {
    place_claimants();
    place_whole_ranks();
    const std::vector<int> incomplete = decide_sizes();
    share_packages(incomplete);
    for (const int rank : incomplete) take_nearest(rank, owed_[at(rank)]);
    for (int rank = 0; rank < ranks_; ++rank) put_own_node_first(rank);
    return shares_;
  }

 private:
  void take(int rank, int node, int cores) {
    if (cores == 0) return;
    auto& shares = shares_[at(rank)];
    const auto known =
        std::find_if(shares.begin(), shares.end(), [&](const Share& s) { return s.node == node; });
    if (known == shares.end()) {
      shares.push_back({node, cores});
    } else {
      known->cores += cores;
    }
    cores_left_[at(node)] -= cores;
  }

  int held(int rank) const {
    const auto& shares = shares_[at(rank)];
    return std::accumulate(shares.begin(), shares.end(), 0,
                           [](int sum, const Share& s) { return sum + s.cores; });
  }

  /// Places the ranks that prefer a node inside it if it has enough cores for all of them. An oversubscribed
  /// node is divided evenly among them, to the last core.
  void place_claimants() {
    for (int node = 0; node < static_cast<int>(nodes_.size()); ++node) {
      std::vector<int> claimants;
      for (int rank = 0; rank < ranks_; ++rank) {
        if (preferences_[at(rank)] == node) claimants.push_back(rank);
      }
      const int count = static_cast<int>(claimants.size());
      const int cores = nodes_[at(node)].cores;
      if (count * base_cores_ <= cores) {
        for (const int rank : claimants) place_whole(rank, node);
        continue;
      }
      oversubscribed_[at(node)] = true;
      for (int i = 0; i < count; ++i)
        take(claimants[at(i)], node, cores / count + (i < cores % count ? 1 : 0));
    }
  }

  void place_whole(int rank, int node) {
    take(rank, node, base_cores_);
    ++whole_ranks_on_[at(node)];
    ++whole_ranks_;
  }

  /// Returns how many of `count` ranks inside a node may get an extra core.
  int most_with_extra_core(int node, int count) const {
    return std::min(count, nodes_[at(node)].cores - base_cores_ * count);
  }

  int most_with_extra_core() const {
    int sum = 0;
    for (int node = 0; node < static_cast<int>(nodes_.size()); ++node) {
      if (!oversubscribed_[at(node)]) sum += most_with_extra_core(node, whole_ranks_on_[at(node)]);
    }
    return sum;
  }

  /// Places as many ranks without a preference as possible inside one node each.
  ///
  /// Only ranks_ - ranks_with_extra_core_ ranks may go without an extra core. So n ranks can lie inside nodes
  /// if at least n - (ranks_ - ranks_with_extra_core_) of them can get one. most_with_extra_core(node, n) is
  /// concave in n; therefore it is optimal to take the largest gain first.
  void place_whole_ranks() {
    for (int rank = 0; rank < ranks_; ++rank) {
      if (preferences_[at(rank)]) continue;
      int best = -1;
      int best_gain = 0;
      for (int node = 0; node < static_cast<int>(nodes_.size()); ++node) {
        const int count = whole_ranks_on_[at(node)];
        if (oversubscribed_[at(node)] || cores_left_[at(node)] < base_cores_) continue;
        const int gain = most_with_extra_core(node, count + 1) - most_with_extra_core(node, count);
        if (best < 0 || gain > best_gain) {
          best = node;
          best_gain = gain;
        }
      }
      if (best < 0 || (best_gain < 1 && most_with_extra_core() + best_gain <
                                            whole_ranks_ + 1 - (ranks_ - ranks_with_extra_core_)))
        return;
      place_whole(rank, best);
    }
  }

  /// Decides which ranks get an extra core and gives it to those of them that lie inside a node. Returns the
  /// ranks that still need cores: those that already have some first, then the others, both in rank order.
  std::vector<int> decide_sizes() {
    std::vector<bool> complete(preferences_.size());
    int extra_left = ranks_with_extra_core_;
    for (const int node : nodes_by_slack()) {
      const int most = std::min(extra_left, most_with_extra_core(node, whole_ranks_on_[at(node)]));
      int given = 0;
      for (int rank = 0; rank < ranks_; ++rank) {
        if (!is_whole_on(rank, node)) continue;
        complete[at(rank)] = true;
        if (given == most) continue;
        take(rank, node, 1);
        ++given;
      }
      extra_left -= given;
    }

    // If more extra cores are left than incomplete ranks, some ranks inside a node take theirs from
    // elsewhere.
    int unplaced_extra = extra_left - static_cast<int>(std::count(complete.begin(), complete.end(), false));
    for (int rank = ranks_ - 1; rank >= 0 && unplaced_extra > 0; --rank) {
      if (!complete[at(rank)] || held(rank) != base_cores_) continue;
      complete[at(rank)] = false;
      --unplaced_extra;
    }

    std::vector<int> incomplete;
    for (int rank = 0; rank < ranks_; ++rank) {
      if (!complete[at(rank)]) incomplete.push_back(rank);
    }
    std::stable_partition(incomplete.begin(), incomplete.end(),
                          [&](int rank) { return !shares_[at(rank)].empty(); });
    for (const int rank : incomplete) owed_[at(rank)] = base_cores_ + (extra_left-- > 0 ? 1 : 0) - held(rank);
    return incomplete;
  }

  bool is_whole_on(int rank, int node) const {
    const auto& shares = shares_[at(rank)];
    return !oversubscribed_[at(node)] && shares.size() == 1 && shares[0].node == node;
  }

  /// Returns the nodes that are not oversubscribed. Nodes whose last cores can all go to ranks inside them
  /// come first, so that few single cores are left.
  std::vector<int> nodes_by_slack() const {
    std::vector<int> order;
    for (int node = 0; node < static_cast<int>(nodes_.size()); ++node) {
      if (!oversubscribed_[at(node)]) order.push_back(node);
    }
    const auto key = [&](int node) {
      return std::tuple(cores_left_[at(node)] > whole_ranks_on_[at(node)], cores_left_[at(node)]);
    };
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return key(a) < key(b); });
    return order;
  }

  /// Divides what a package has left evenly among the ranks that prefer its nodes, so that the first of them
  /// does not take it all and send the next to another package.
  void share_packages(const std::vector<int>& incomplete) {
    std::map<int, int> waiting;
    for (const int rank : incomplete) {
      if (preferences_[at(rank)]) ++waiting[nodes_[at(*preferences_[at(rank)])].package];
    }
    for (const int rank : incomplete) {
      if (!preferences_[at(rank)]) continue;
      const int package = nodes_[at(*preferences_[at(rank)])].package;
      take_nearest(rank, std::min(owed_[at(rank)], left_in_package(package) / waiting[package]--));
    }
  }

  void take_nearest(int rank, int cores) {
    owed_[at(rank)] -= cores;
    while (cores > 0) {
      const int node = nearest_leftover(rank, cores);
      const int part = std::min(cores, cores_left_[at(node)]);
      take(rank, node, part);
      cores -= part;
    }
  }

  /// Returns the node from which a rank should take `owed` more cores: in its own package first (a rank
  /// without one prefers a package that has enough left). There it is the node with the fewest cores that are
  /// enough, else the one with the most; among equals the nearest.
  int nearest_leftover(int rank, int owed) const {
    const auto& shares = shares_[at(rank)];
    const std::optional<int> home = preferences_[at(rank)] || shares.empty()
                                        ? preferences_[at(rank)]
                                        : std::optional(shares.front().node);
    const auto key = [&](int node) {
      const int left = cores_left_[at(node)];
      const int package = nodes_[at(node)].package;
      const bool far = home ? package != nodes_[at(*home)].package : left_in_package(package) < owed;
      const bool too_small = left < owed;
      return std::tuple(far, too_small, too_small ? -left : left, home ? std::abs(node - *home) : 0, node);
    };
    int best = -1;
    for (int node = 0; node < static_cast<int>(nodes_.size()); ++node) {
      if (cores_left_[at(node)] > 0 && (best < 0 || key(node) < key(best))) best = node;
    }
    assert(best >= 0);
    return best;
  }

  int left_in_package(int package) const {
    int sum = 0;
    for (std::size_t node = 0; node < nodes_.size(); ++node) {
      if (nodes_[node].package == package) sum += cores_left_[node];
    }
    return sum;
  }

  void put_own_node_first(int rank) {
    auto& shares = shares_[at(rank)];
    const auto own = std::min_element(shares.begin(), shares.end(), [&](const Share& a, const Share& b) {
      const auto key = [&](const Share& s) {
        return std::tuple(preferences_[at(rank)] != s.node, -s.cores, s.node);
      };
      return key(a) < key(b);
    });
    const int home = own->node;
    const auto distance = [&](const Share& s) {
      return std::tuple(s.node != home, nodes_[at(s.node)].package != nodes_[at(home)].package,
                        std::abs(s.node - home), s.node);
    };
    std::sort(shares.begin(), shares.end(),
              [&](const Share& a, const Share& b) { return distance(a) < distance(b); });
  }

  const std::vector<NodeCapacity>& nodes_;
  const std::vector<std::optional<int>>& preferences_;
  int ranks_;
  int base_cores_ = 0;             ///< cores of a rank without an extra core
  int ranks_with_extra_core_ = 0;  ///< how many ranks get an extra core
  int whole_ranks_ = 0;            ///< ranks that lie inside one node
  std::vector<int> cores_left_;
  std::vector<int> whole_ranks_on_;   ///< ranks that lie inside each node
  std::vector<bool> oversubscribed_;  ///< more ranks prefer the node than it can hold
  std::vector<std::vector<Share>> shares_;
  std::vector<int> owed_;
};

}  // namespace

std::vector<std::vector<Share>> node_shares(const std::vector<NodeCapacity>& nodes,
                                            const std::vector<std::optional<int>>& preferences) {
  return ShareAssignment(nodes, preferences).result();
}

}  // namespace zf
