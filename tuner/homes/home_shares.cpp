#include "homes/home_shares.hpp"

#include <algorithm>
#include <cassert>
#include <cstdlib>
#include <numeric>
#include <tuple>

#include "homes/index.hpp"

namespace zf {
namespace {

/// The assignment in progress. With q = cores / ranks and r = cores % ranks, r ranks get q + 1 cores ("an
/// extra core") and the others q. Which ranks get an extra core is decided as late as possible.
class ShareAssignment {
 public:
  ShareAssignment(const std::vector<Domain>& domains, const std::vector<std::optional<int>>& preferences)
      : domains_(domains),
        preferences_(preferences),
        ranks_(static_cast<int>(preferences.size())),
        whole_ranks_on_(domains.size()),
        oversubscribed_(domains.size()),
        shares_(preferences.size()),
        owed_(preferences.size()) {
    int total = 0;
    for (const Domain& domain : domains) {
      total += domain.size;
      cores_left_.push_back(domain.size);
    }
    assert(ranks_ >= 1 && total >= ranks_);
    base_cores_ = total / ranks_;
    ranks_with_extra_core_ = total % ranks_;
  }

  std::vector<std::vector<Share>> result() {
    place_claimants();
    place_whole_ranks();
    const std::vector<int> incomplete = decide_sizes();
    share_level(incomplete, &ShareAssignment::same_node);
    share_level(incomplete, &ShareAssignment::same_package);
    for (const int rank : incomplete) take_nearest(rank, owed_[at(rank)]);
    for (int rank = 0; rank < ranks_; ++rank)
      sort_near_to_far(domains_, preferences_[at(rank)], shares_[at(rank)]);
    return shares_;
  }

 private:
  void take(int rank, int domain, int cores) {
    if (cores == 0) return;
    auto& shares = shares_[at(rank)];
    const auto known =
        std::find_if(shares.begin(), shares.end(), [&](const Share& s) { return s.domain == domain; });
    if (known == shares.end()) {
      shares.push_back({domain, cores});
    } else {
      known->cores += cores;
    }
    cores_left_[at(domain)] -= cores;
  }

  int held(int rank) const {
    const auto& shares = shares_[at(rank)];
    return std::accumulate(shares.begin(), shares.end(), 0,
                           [](int sum, const Share& s) { return sum + s.cores; });
  }

  /// Places the ranks that prefer a domain inside it if it has enough cores for all of them. An
  /// oversubscribed domain is divided evenly among them, to the last core.
  void place_claimants() {
    for (int domain = 0; domain < static_cast<int>(domains_.size()); ++domain) {
      std::vector<int> claimants;
      for (int rank = 0; rank < ranks_; ++rank) {
        if (preferences_[at(rank)] == domain) claimants.push_back(rank);
      }
      const int count = static_cast<int>(claimants.size());
      const int cores = domains_[at(domain)].size;
      if (count * base_cores_ <= cores) {
        for (const int rank : claimants) place_whole(rank, domain);
        continue;
      }
      oversubscribed_[at(domain)] = true;
      for (int i = 0; i < count; ++i)
        take(claimants[at(i)], domain, cores / count + (i < cores % count ? 1 : 0));
    }
  }

  void place_whole(int rank, int domain) {
    take(rank, domain, base_cores_);
    ++whole_ranks_on_[at(domain)];
    ++whole_ranks_;
  }

  /// Returns how many of `count` ranks inside a domain may get an extra core.
  int most_with_extra_core(int domain, int count) const {
    return std::min(count, domains_[at(domain)].size - base_cores_ * count);
  }

  int most_with_extra_core() const {
    int sum = 0;
    for (int domain = 0; domain < static_cast<int>(domains_.size()); ++domain) {
      if (!oversubscribed_[at(domain)]) sum += most_with_extra_core(domain, whole_ranks_on_[at(domain)]);
    }
    return sum;
  }

  /// Places as many ranks without a preference as possible inside one domain each.
  ///
  /// Only ranks_ - ranks_with_extra_core_ ranks may go without an extra core. So n ranks can lie inside
  /// domains if at least n - (ranks_ - ranks_with_extra_core_) of them can get one.
  /// most_with_extra_core(domain, n) is concave in n; therefore it is optimal to take the largest gain first.
  void place_whole_ranks() {
    for (int rank = 0; rank < ranks_; ++rank) {
      if (preferences_[at(rank)]) continue;
      int best = -1;
      int best_gain = 0;
      for (int domain = 0; domain < static_cast<int>(domains_.size()); ++domain) {
        const int count = whole_ranks_on_[at(domain)];
        if (oversubscribed_[at(domain)] || cores_left_[at(domain)] < base_cores_) continue;
        const int gain = most_with_extra_core(domain, count + 1) - most_with_extra_core(domain, count);
        if (best < 0 || gain > best_gain) {
          best = domain;
          best_gain = gain;
        }
      }
      if (best < 0 || (best_gain < 1 && most_with_extra_core() + best_gain <
                                            whole_ranks_ + 1 - (ranks_ - ranks_with_extra_core_)))
        return;
      place_whole(rank, best);
    }
  }

  /// Decides which ranks get an extra core and gives it to those of them that lie inside a domain. Returns
  /// the ranks that still need cores: those that already have some first, then the others, both in rank
  /// order.
  std::vector<int> decide_sizes() {
    std::vector<bool> complete(preferences_.size());
    int extra_left = ranks_with_extra_core_;
    for (const int domain : domains_by_slack()) {
      const int most = std::min(extra_left, most_with_extra_core(domain, whole_ranks_on_[at(domain)]));
      int given = 0;
      for (int rank = 0; rank < ranks_; ++rank) {
        if (!is_whole_on(rank, domain)) continue;
        complete[at(rank)] = true;
        if (given == most) continue;
        take(rank, domain, 1);
        ++given;
      }
      extra_left -= given;
    }

    // If more extra cores are left than incomplete ranks, some ranks inside a domain take theirs from
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

  bool is_whole_on(int rank, int domain) const {
    const auto& shares = shares_[at(rank)];
    return !oversubscribed_[at(domain)] && shares.size() == 1 && shares[0].domain == domain;
  }

  /// Returns the domains that are not oversubscribed. Nodes whose last cores can all go to ranks inside them
  /// come first, so that few single cores are left.
  std::vector<int> domains_by_slack() const {
    std::vector<int> order;
    for (int domain = 0; domain < static_cast<int>(domains_.size()); ++domain) {
      if (!oversubscribed_[at(domain)]) order.push_back(domain);
    }
    const auto key = [&](int domain) {
      return std::tuple(cores_left_[at(domain)] > whole_ranks_on_[at(domain)], cores_left_[at(domain)]);
    };
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return key(a) < key(b); });
    return order;
  }

  using Level = bool (ShareAssignment::*)(int domain, int other) const;

  bool same_node(int domain, int other) const {
    return in_same_node(domains_[at(domain)], domains_[at(other)]);
  }

  bool same_package(int domain, int other) const {
    return domains_[at(domain)].package == domains_[at(other)].package;
  }

  /// Divides what a node (or a package) has left evenly among the ranks that prefer a domain of it, so that
  /// the first of them does not take it all and send the next elsewhere.
  void share_level(const std::vector<int>& incomplete, Level same) {
    std::vector<int> waiting;
    for (const int rank : incomplete) {
      if (preferences_[at(rank)] && owed_[at(rank)] > 0) waiting.push_back(rank);
    }
    for (std::size_t i = 0; i < waiting.size(); ++i) {
      const int home = *preferences_[at(waiting[i])];
      const auto beside =
          std::count_if(waiting.begin() + static_cast<std::ptrdiff_t>(i), waiting.end(),
                        [&](int other) { return (this->*same)(home, *preferences_[at(other)]); });
      take_nearest(waiting[i],
                   std::min(owed_[at(waiting[i])], left_beside(home, same) / static_cast<int>(beside)));
    }
  }

  void take_nearest(int rank, int cores) {
    owed_[at(rank)] -= cores;
    while (cores > 0) {
      const int domain = nearest_leftover(rank, cores);
      const int part = std::min(cores, cores_left_[at(domain)]);
      take(rank, domain, part);
      cores -= part;
    }
  }

  /// Returns the domain from which a rank should take `owed` more cores: in its own node first, then in its
  /// own package (a rank without one prefers a package that has enough left). There it is the domain with the
  /// fewest cores that are enough, else the one with the most; among equals the nearest.
  int nearest_leftover(int rank, int owed) const {
    const auto& shares = shares_[at(rank)];
    const std::optional<int> home = preferences_[at(rank)] || shares.empty()
                                        ? preferences_[at(rank)]
                                        : std::optional(shares.front().domain);
    const auto key = [&](int domain) {
      const int left = cores_left_[at(domain)];
      const bool far =
          home ? !same_package(domain, *home) : left_beside(domain, &ShareAssignment::same_package) < owed;
      const bool other_node = home && !same_node(domain, *home);
      const bool too_small = left < owed;
      return std::tuple(far, other_node, too_small, too_small ? -left : left,
                        home ? std::abs(domain - *home) : 0, domain);
    };
    int best = -1;
    for (int domain = 0; domain < static_cast<int>(domains_.size()); ++domain) {
      if (cores_left_[at(domain)] > 0 && (best < 0 || key(domain) < key(best))) best = domain;
    }
    assert(best >= 0);
    return best;
  }

  /// Returns what is left in the domain's node or package.
  int left_beside(int domain, Level same) const {
    int sum = 0;
    for (int other = 0; other < static_cast<int>(domains_.size()); ++other) {
      if ((this->*same)(domain, other)) sum += cores_left_[at(other)];
    }
    return sum;
  }

  const std::vector<Domain>& domains_;
  const std::vector<std::optional<int>>& preferences_;
  int ranks_;
  int base_cores_ = 0;             ///< cores of a rank without an extra core
  int ranks_with_extra_core_ = 0;  ///< how many ranks get an extra core
  int whole_ranks_ = 0;            ///< ranks that lie inside one domain
  std::vector<int> cores_left_;
  std::vector<int> whole_ranks_on_;   ///< ranks that lie inside each domain
  std::vector<bool> oversubscribed_;  ///< more ranks prefer the domain than it can hold
  std::vector<std::vector<Share>> shares_;
  std::vector<int> owed_;
};

}  // namespace

std::vector<std::vector<Share>> domain_shares(const std::vector<Domain>& domains,
                                              const std::vector<std::optional<int>>& preferences) {
  return ShareAssignment(domains, preferences).result();
}

}  // namespace zf
