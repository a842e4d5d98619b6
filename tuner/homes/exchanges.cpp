#include "homes/exchanges.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <tuple>
#include <utility>

#include "homes/index.hpp"

namespace zf {
namespace {

using Shares = std::vector<Share>;

/// With more ranks the pairs take longer than they are worth: homes are small then, and lie inside nodes.
constexpr std::size_t kMostRanks = 16;

int size_of(const Shares& shares) {
  return std::accumulate(shares.begin(), shares.end(), 0,
                         [](int sum, const Share& s) { return sum + s.cores; });
}

/// Returns the shares with `cores` more of a domain, or fewer if negative.
Shares changed(Shares shares, int domain, int cores) {
  const auto known =
      std::find_if(shares.begin(), shares.end(), [&](const Share& s) { return s.domain == domain; });
  if (known == shares.end()) {
    shares.push_back({domain, cores});
  } else if ((known->cores += cores) == 0) {
    shares.erase(known);
  }
  return shares;
}

/// The points that count for a rank; less is better.
struct Wishes {
  int far = 0;  ///< minus the cores near its place; 0 if any place or any of a package will do
  int outside =
      0;  ///< minus the cores in the package of its place, up to an even share; 0 if any place will do
  int nodes = 0;
  int packages = 0;
};

class Exchange {
 public:
  Exchange(const Domains& domains, std::vector<Shares>& shares)
      : domains_(domains),
        shares_(shares),
        even_share_(static_cast<int>(domains.cores.size() / shares.size())) {}

  /// Makes the first exchange between the two ranks that is better; returns whether there was one.
  bool between(std::size_t a, std::size_t b) {
    const int more = size_of(shares_[a]) - size_of(shares_[b]);
    for (const Share& from : Shares(shares_[a])) {
      if (more > 0 && accept(a, b, changed(shares_[a], from.domain, -1), changed(shares_[b], from.domain, 1)))
        return true;
      for (const Share& back : Shares(shares_[b])) {
        if (back.domain == from.domain) continue;
        const int most = std::min(from.cores, back.cores);
        for (const int cores : {most, 1}) {
          if (accept(a, b, changed(changed(shares_[a], from.domain, -cores), back.domain, cores),
                     changed(changed(shares_[b], back.domain, -cores), from.domain, cores)))
            return true;
          if (most == 1) break;
        }
      }
    }
    return false;
  }

  /// Returns whether the rank has all that it can wish for.
  bool is_content(std::size_t rank) const {
    const Wishes wishes = wishes_of(rank, shares_[rank]);
    const int cores = size_of(shares_[rank]);
    return wishes.nodes == 1 && wishes.packages == 1 && (!has_near(rank) || -wishes.far == cores) &&
           (domains_.near[rank].empty() || -wishes.outside == std::min(cores, even_share_));
  }

 private:
  bool accept(std::size_t a, std::size_t b, Shares new_a, Shares new_b) {
    if (new_a.empty() || new_b.empty()) return false;
    if (!(worst_first(wishes_of(a, new_a), wishes_of(b, new_b)) <
          worst_first(wishes_of(a, shares_[a]), wishes_of(b, shares_[b]))))
      return false;
    shares_[a] = std::move(new_a);
    shares_[b] = std::move(new_b);
    return true;
  }

  static std::array<std::pair<int, int>, 4> worst_first(const Wishes& a, const Wishes& b) {
    const auto sorted = [](int x, int y) { return std::pair(std::max(x, y), std::min(x, y)); };
    return {sorted(a.far, b.far), sorted(a.outside, b.outside), sorted(a.nodes, b.nodes),
            sorted(a.packages, b.packages)};
  }

  /// Returns whether cores near the rank's place count: it has one, and that is less than a package.
  bool has_near(std::size_t rank) const {
    return !domains_.near[rank].empty() && !domains_.is_package_only[rank];
  }

  Wishes wishes_of(std::size_t rank, const Shares& shares) const {
    Wishes wishes;
    for (std::size_t i = 0; i < shares.size(); ++i) {
      const Domain& domain = domains_.all[at(shares[i].domain)];
      if (has_near(rank) && domains_.near[rank][at(shares[i].domain)]) wishes.far -= shares[i].cores;
      if (!domains_.near[rank].empty() && domains_.in_package[rank][at(shares[i].domain)])
        wishes.outside -= shares[i].cores;
      bool new_node = true;
      bool new_package = true;
      for (std::size_t before = 0; before < i; ++before) {
        const Domain& other = domains_.all[at(shares[before].domain)];
        new_node = new_node && other.node != domain.node;
        new_package = new_package && other.package != domain.package;
      }
      wishes.nodes += new_node;
      wishes.packages += new_package;
    }
    wishes.outside = std::max(wishes.outside, -even_share_);
    return wishes;
  }

  const Domains& domains_;
  std::vector<Shares>& shares_;
  int even_share_;
};

}  // namespace

void exchange_cores(const Domains& domains, const std::vector<std::optional<int>>& preferences,
                    std::vector<std::vector<Share>>& shares) {
  if (shares.size() > kMostRanks) return;
  // Each exchange is a step down in a finite order, so this ends. The bound keeps large machines fast.
  int exchanges_left = 4 * static_cast<int>(shares.size());
  Exchange exchange(domains, shares);
  for (bool changed = true; changed && exchanges_left > 0;) {
    changed = false;
    for (std::size_t a = 0; a < shares.size(); ++a) {
      if (exchange.is_content(a)) continue;
      for (std::size_t b = 0; b < shares.size(); ++b) {
        while (a != b && exchanges_left > 0 && (exchange.between(a, b) || exchange.between(b, a))) {
          changed = true;
          --exchanges_left;
        }
      }
    }
  }
  for (std::size_t rank = 0; rank < shares.size(); ++rank)
    sort_near_to_far(domains.all, preferences[rank], shares[rank]);
}

}  // namespace zf
