#include "homes/home_shares.hpp"

#include <algorithm>
#include <cassert>
#include <cstdlib>
#include <map>
#include <numeric>
#include <tuple>

namespace zf {
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

/// The counting in progress. With q = cores / ranks and r = cores % ranks, r ranks are big (q + 1 cores) and
/// the others small (q cores); which rank is big is decided as late as possible.
class Shares {
 public:
  Shares(const std::vector<NodeRoom>& rooms, const std::vector<std::optional<int>>& wishes)
      : rooms_(rooms),
        wishes_(wishes),
        ranks_(static_cast<int>(wishes.size())),
        inside_(rooms.size()),
        crowded_(rooms.size()),
        shares_(wishes.size()),
        owed_(wishes.size()) {
    int total = 0;
    for (const NodeRoom& room : rooms) {
      total += room.cores;
      left_.push_back(room.cores);
    }
    assert(ranks_ >= 1 && total >= ranks_);
    small_ = total / ranks_;
    bigs_ = total % ranks_;
  }

  std::vector<std::vector<Share>> result() {
    place_wishers();
    place_whole_ranks();
    const std::vector<int> incomplete = settle_sizes();
    share_packages(incomplete);
    for (const int rank : incomplete) take_nearest(rank, owed_[at(rank)]);
    for (int rank = 0; rank < ranks_; ++rank) put_own_room_first(rank);
    return shares_;
  }

 private:
  void take(int rank, int room, int cores) {
    if (cores == 0) return;
    auto& shares = shares_[at(rank)];
    const auto known =
        std::find_if(shares.begin(), shares.end(), [&](const Share& s) { return s.room == room; });
    if (known == shares.end()) {
      shares.push_back({room, cores});
    } else {
      known->cores += cores;
    }
    left_[at(room)] -= cores;
  }

  int held(int rank) const {
    const auto& shares = shares_[at(rank)];
    return std::accumulate(shares.begin(), shares.end(), 0,
                           [](int sum, const Share& s) { return sum + s.cores; });
  }

  /// Wishers of a room that holds them all live inside it; a crowded room is shared out evenly, to the last
  /// core.
  void place_wishers() {
    for (int room = 0; room < static_cast<int>(rooms_.size()); ++room) {
      std::vector<int> wishers;
      for (int rank = 0; rank < ranks_; ++rank) {
        if (wishes_[at(rank)] == room) wishers.push_back(rank);
      }
      const int count = static_cast<int>(wishers.size());
      const int cores = rooms_[at(room)].cores;
      if (count * small_ <= cores) {
        for (const int rank : wishers) place_inside(rank, room);
        continue;
      }
      crowded_[at(room)] = true;
      for (int i = 0; i < count; ++i) take(wishers[at(i)], room, cores / count + (i < cores % count ? 1 : 0));
    }
  }

  void place_inside(int rank, int room) {
    take(rank, room, small_);
    ++inside_[at(room)];
    ++whole_;
  }

  /// How many of `count` ranks inside a room may be big.
  int most_bigs(int room, int count) const {
    return std::min(count, rooms_[at(room)].cores - small_ * count);
  }

  int most_bigs() const {
    int sum = 0;
    for (int room = 0; room < static_cast<int>(rooms_.size()); ++room) {
      if (!crowded_[at(room)]) sum += most_bigs(room, inside_[at(room)]);
    }
    return sum;
  }

  /// Puts as many ranks without a wish as possible inside one room each.
  ///
  /// Only ranks_ - bigs_ ranks may be small, so n whole ranks are possible if at least n - (ranks_ - bigs_)
  /// of them can be big. most_bigs(room, n) is concave in n, therefore the largest gain first is optimal.
  void place_whole_ranks() {
    for (int rank = 0; rank < ranks_; ++rank) {
      if (wishes_[at(rank)]) continue;
      int best = -1;
      int best_gain = 0;
      for (int room = 0; room < static_cast<int>(rooms_.size()); ++room) {
        const int count = inside_[at(room)];
        if (crowded_[at(room)] || left_[at(room)] < small_) continue;
        const int gain = most_bigs(room, count + 1) - most_bigs(room, count);
        if (best < 0 || gain > best_gain) {
          best = room;
          best_gain = gain;
        }
      }
      if (best < 0 || (best_gain < 1 && most_bigs() + best_gain < whole_ + 1 - (ranks_ - bigs_))) return;
      place_inside(rank, best);
    }
  }

  /// Decides who is big, gives the big ones inside a room their core, and returns the ranks that still want
  /// cores: those with a wish first, then the others, in rank order.
  std::vector<int> settle_sizes() {
    std::vector<bool> complete(wishes_.size());
    int bigs = bigs_;
    for (const int room : rooms_by_slack()) {
      const int most = std::min(bigs, most_bigs(room, inside_[at(room)]));
      int given = 0;
      for (int rank = 0; rank < ranks_; ++rank) {
        if (!is_inside(rank, room)) continue;
        complete[at(rank)] = true;
        if (given == most) continue;
        take(rank, room, 1);
        ++given;
      }
      bigs -= given;
    }

    // More big ranks than incomplete ones: some that lie inside a room must take one core from elsewhere.
    int free_bigs = bigs - static_cast<int>(std::count(complete.begin(), complete.end(), false));
    for (int rank = ranks_ - 1; rank >= 0 && free_bigs > 0; --rank) {
      if (!complete[at(rank)] || held(rank) != small_) continue;
      complete[at(rank)] = false;
      --free_bigs;
    }

    std::vector<int> incomplete;
    for (int rank = 0; rank < ranks_; ++rank) {
      if (!complete[at(rank)]) incomplete.push_back(rank);
    }
    std::stable_partition(incomplete.begin(), incomplete.end(),
                          [&](int rank) { return !shares_[at(rank)].empty(); });
    for (const int rank : incomplete) owed_[at(rank)] = small_ + (bigs-- > 0 ? 1 : 0) - held(rank);
    return incomplete;
  }

  bool is_inside(int rank, int room) const {
    const auto& shares = shares_[at(rank)];
    return !crowded_[at(room)] && shares.size() == 1 && shares[0].room == room;
  }

  /// Uncrowded rooms; those that big ranks can use up to the last core first, so that little is left in
  /// pieces.
  std::vector<int> rooms_by_slack() const {
    std::vector<int> order;
    for (int room = 0; room < static_cast<int>(rooms_.size()); ++room) {
      if (!crowded_[at(room)]) order.push_back(room);
    }
    const auto key = [&](int room) {
      return std::tuple(left_[at(room)] > inside_[at(room)], left_[at(room)]);
    };
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return key(a) < key(b); });
    return order;
  }

  /// Ranks that wish for rooms of one package share evenly what it has left: none of them takes it all and
  /// sends the next one to another package.
  void share_packages(const std::vector<int>& incomplete) {
    std::map<int, int> waiting;
    for (const int rank : incomplete) {
      if (wishes_[at(rank)]) ++waiting[rooms_[at(*wishes_[at(rank)])].package];
    }
    for (const int rank : incomplete) {
      if (!wishes_[at(rank)]) continue;
      const int package = rooms_[at(*wishes_[at(rank)])].package;
      take_nearest(rank, std::min(owed_[at(rank)], left_in_package(package) / waiting[package]--));
    }
  }

  void take_nearest(int rank, int cores) {
    owed_[at(rank)] -= cores;
    while (cores > 0) {
      const int room = nearest_leftover(rank, cores);
      const int part = std::min(cores, left_[at(room)]);
      take(rank, room, part);
      cores -= part;
    }
  }

  /// Where a rank should take `owed` more cores from: its own package first (or, without one, a package that
  /// has enough left), there the tightest room that has enough, else the one with most; then the nearest.
  int nearest_leftover(int rank, int owed) const {
    const auto& shares = shares_[at(rank)];
    const std::optional<int> home =
        wishes_[at(rank)] || shares.empty() ? wishes_[at(rank)] : std::optional(shares.front().room);
    const auto key = [&](int room) {
      const int left = left_[at(room)];
      const int package = rooms_[at(room)].package;
      const bool far = home ? package != rooms_[at(*home)].package : left_in_package(package) < owed;
      const bool too_small = left < owed;
      return std::tuple(far, too_small, too_small ? -left : left, home ? std::abs(room - *home) : 0, room);
    };
    int best = -1;
    for (int room = 0; room < static_cast<int>(rooms_.size()); ++room) {
      if (left_[at(room)] > 0 && (best < 0 || key(room) < key(best))) best = room;
    }
    assert(best >= 0);
    return best;
  }

  int left_in_package(int package) const {
    int sum = 0;
    for (std::size_t room = 0; room < rooms_.size(); ++room) {
      if (rooms_[room].package == package) sum += left_[room];
    }
    return sum;
  }

  void put_own_room_first(int rank) {
    auto& shares = shares_[at(rank)];
    const auto own = std::min_element(shares.begin(), shares.end(), [&](const Share& a, const Share& b) {
      const auto key = [&](const Share& s) {
        return std::tuple(wishes_[at(rank)] != s.room, -s.cores, s.room);
      };
      return key(a) < key(b);
    });
    const int home = own->room;
    const auto distance = [&](const Share& s) {
      return std::tuple(s.room != home, rooms_[at(s.room)].package != rooms_[at(home)].package,
                        std::abs(s.room - home), s.room);
    };
    std::sort(shares.begin(), shares.end(),
              [&](const Share& a, const Share& b) { return distance(a) < distance(b); });
  }

  const std::vector<NodeRoom>& rooms_;
  const std::vector<std::optional<int>>& wishes_;
  int ranks_;
  int small_ = 0;  ///< cores of a small rank
  int bigs_ = 0;   ///< how many ranks get one more
  int whole_ = 0;  ///< ranks inside one room
  std::vector<int> left_;
  std::vector<int> inside_;    ///< whole ranks per room
  std::vector<bool> crowded_;  ///< more wishers than it can hold
  std::vector<std::vector<Share>> shares_;
  std::vector<int> owed_;
};

}  // namespace

std::vector<std::vector<Share>> shares_of(const std::vector<NodeRoom>& rooms,
                                          const std::vector<std::optional<int>>& wishes) {
  return Shares(rooms, wishes).result();
}

}  // namespace zf
