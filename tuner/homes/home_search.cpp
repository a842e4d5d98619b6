#include "homes/home_search.hpp"

#include <algorithm>
#include <array>
#include <compare>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>

#include "homes/core_names.hpp"
#include "homes/home_scale.hpp"
#include "homes/index.hpp"

namespace zf {
namespace {

/// Numbers that are the same everywhere.
class Random {
 public:
  int below(int end) {
    state_ ^= state_ << 13U;
    state_ ^= state_ >> 17U;
    state_ ^= state_ << 5U;
    return static_cast<int>(state_ % static_cast<std::uint32_t>(end));
  }

 private:
  std::uint32_t state_ = 2'463'534'242;
};

/// What one rank has.
struct Holding {
  std::vector<int> cores;  ///< by batch
  HomeCount count;
  std::vector<int> numbers;  ///< HomeScale::numbers() of the count
  int closeness = 0;
};

/// Returns whether ranks share the number out evenly, so that the best one is no matter of one rank.
bool is_shared_out(HomePoint point) {
  return point == HomePoint::sizes || point == HomePoint::fast_makes || point == HomePoint::fast_today;
}

class HomeSearch {
 public:
  HomeSearch(const Domains& domains, int most_comparisons)
      : domains_(domains),
        limit_(most_comparisons),
        scale_(domains),
        sizes_(home_sizes(static_cast<int>(domains.cores.size()), domains.ranks())),
        ranks_(domains.near.size()),
        batches_(static_cast<int>(domains.batches.size())),
        homes_(ranks_.size(), {std::vector<int>(domains.batches.size()), scale_.nothing(), {}, 0}) {
    std::iota(ranks_.begin(), ranks_.end(), 0);
    for (const int rank : ranks_) {
      std::vector<int>& best = best_.emplace_back();
      for (const HomeNumber& number : scale_.numbers()) {
        const bool up_to_size = number.point == HomePoint::near_gpu;
        best.push_back(scale_.best_alone(number, rank, up_to_size ? sizes_.most : sizes_.least));
      }
    }
  }

  /// Gives each rank its number of cores: those near its GPU first, then those of its package.
  void deal_near_to_far() {
    const int cores = static_cast<int>(domains_.cores.size());
    const int ranks = domains_.ranks();
    std::vector<int> left;
    for (const CoreBatch& batch : domains_.batches) left.push_back(static_cast<int>(batch.cores.size()));
    std::vector<int> order = ranks_;
    const auto place = [&](int rank) { return std::pair(!domains_.has_near(rank), first_near(rank)); };
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return place(a) < place(b); });
    for (int i = 0; i < ranks; ++i) {
      int lacking = cores / ranks + (i < cores % ranks ? 1 : 0);
      for (const int nearness : {2, 1, 0}) {
        for (int batch = 0; batch < batches_; ++batch) {
          if (nearness_of(order[at(i)], batch) != nearness) continue;
          const int taken = std::min(lacking, left[at(batch)]);
          left[at(batch)] -= taken;
          lacking -= taken;
          add(order[at(i)], batch, taken);
        }
      }
    }
    for (const int rank : ranks_) recount(rank);
  }

  void take(const Division& division) {
    for (const int rank : ranks_) {
      for (const int core : division[at(rank)]) add(rank, domains_.batch_of[at(core)], 1);
      recount(rank);
    }
  }

  FoundDivision result() {
    settle(ranks_);
    std::vector<Holding> best = homes_;
    while (comparisons_ < limit_ * 4 / 5 && !cannot_gain(ranks_)) {
      choose_group();
      saved_.clear();
      for (const int rank : group_) saved_.push_back(homes_[at(rank)]);
      exchange_at_random();
      settle(group_);
      const auto order = compare_with_saved();
      if (order < 0) best = homes_;
      if (order <= 0) continue;
      for (std::size_t i = 0; i < group_.size(); ++i) homes_[at(group_[i])] = saved_[i];
    }
    homes_ = std::move(best);
    is_tidying_ = true;
    const bool is_settled = settle(ranks_);
    std::vector<std::vector<int>> cores;
    for (const Holding& home : homes_) cores.push_back(home.cores);
    return {named_cores(domains_, cores), comparisons_, is_settled};
  }

 private:
  int first_near(int rank) const {
    int batch = 0;
    while (batch < batches_ && nearness_of(rank, batch) < 2) ++batch;
    return batch;
  }

  /// Returns 2 if the batch is near the rank's GPU, 1 if it is in its package, else 0.
  int nearness_of(int rank, int batch) const {
    if (domains_.near[at(rank)].empty()) return 0;
    const auto domain = at(domains_.batches[at(batch)].domain);
    return domains_.near[at(rank)][domain] ? 2 : domains_.in_package[at(rank)][domain] ? 1 : 0;
  }

  void add(int rank, int batch, int cores) {
    homes_[at(rank)].cores[at(batch)] += cores;
    scale_.add(homes_[at(rank)].count, rank, batch, cores);
  }

  void move(int from, int to, int batch, int cores) {
    if (cores == 0) return;
    add(from, batch, -cores);
    add(to, batch, cores);
  }

  void recount(int rank) {
    Holding& home = homes_[at(rank)];
    scale_.write(home.count, rank, home.numbers);
    home.closeness = home.count.closeness;
  }

  int held(int rank, int batch) const { return homes_[at(rank)].cores[at(batch)]; }

  /// Chooses two or three ranks, the first of them one that could have a better home if it were alone.
  void choose_group() {
    group_.clear();
    lacking_.clear();
    for (const int rank : ranks_) {
      if (!has_best(rank)) lacking_.push_back(rank);
    }
    if (!lacking_.empty()) group_.push_back(lacking_[at(random_.below(static_cast<int>(lacking_.size())))]);
    const auto size = std::min(ranks_.size(), random_.below(2) == 0 ? std::size_t{3} : std::size_t{2});
    while (group_.size() < size) {
      const int rank = random_.below(domains_.ranks());
      if (std::find(group_.begin(), group_.end(), rank) == group_.end()) group_.push_back(rank);
    }
  }

  int random_batch_of(int rank) {
    int core = random_.below(homes_[at(rank)].count.cores);
    int batch = 0;
    while (core >= held(rank, batch)) core -= held(rank, batch++);
    return batch;
  }

  /// Returns a batch that a rank has cores of, mostly of the same domain as another batch.
  int random_batch_near(int other, int rank) {
    int batch = random_batch_of(rank);
    for (int tries = 0; tries < 4 && domains_.batches[at(batch)].domain != domains_.batches[at(other)].domain;
         ++tries)
      batch = random_batch_of(rank);
    return batch;
  }

  /// Each rank of the group exchanges with the next one as much as both have of two batches.
  void exchange_at_random() {
    ++comparisons_;
    for (std::size_t i = 0; i < group_.size(); ++i) {
      const int a = group_[i];
      const int b = group_[(i + 1) % group_.size()];
      const int x = random_batch_of(a);
      const int y = random_batch_near(x, b);
      const int both = std::min(held(a, x), held(b, y));
      move(a, b, x, both);
      move(b, a, y, both);
    }
    for (const int rank : group_) recount(rank);
  }

  std::strong_ordering compare_with_saved() {
    for (std::size_t i = 0; i < scale_.numbers().size(); ++i) {
      now_.clear();
      before_.clear();
      for (std::size_t j = 0; j < group_.size(); ++j) {
        now_.push_back(homes_[at(group_[j])].numbers[i]);
        before_.push_back(saved_[j].numbers[i]);
      }
      std::sort(now_.rbegin(), now_.rend());
      std::sort(before_.rbegin(), before_.rend());
      if (now_ != before_) return now_ <=> before_;
    }
    return std::strong_ordering::equal;
  }

  /// Makes every exchange among these ranks that is better, until there is none. Returns false if the limit
  /// comes first.
  bool settle(const std::vector<int>& ranks) {
    for (bool changed = true; changed;) {
      changed = false;
      for (std::size_t i = 0; i < ranks.size(); ++i) {
        for (std::size_t j = i + 1; j < ranks.size(); ++j) {
          while (improve(ranks[i], ranks[j])) changed = ranks.size() > 2;
        }
      }
    }
    return comparisons_ < limit_;
  }

  /// Makes the first exchange between two ranks that is better. Returns whether there was one.
  bool improve(int a, int b) {
    if (cannot_gain(std::array{a, b})) return false;
    const bool may_get = sizes_fit(b, a);
    const bool may_give = sizes_fit(a, b);
    for (int x = 0; x < batches_; ++x) {
      if (held(a, x) == 0) continue;
      if (may_give && exchange(a, x, 1, b, x, 0)) return true;
      for (int y = 0; y < batches_; ++y) {
        if (held(b, y) == 0 || y == x) continue;
        const int both = std::min(held(a, x), held(b, y));
        if (exchange(a, x, both, b, y, both)) return true;
        if (both > 1 && !are_alike(a, b, x, y) && exchange(a, x, 1, b, y, 1)) return true;
        if (may_give && held(a, x) == both + 1 && exchange(a, x, both + 1, b, y, both)) return true;
        if (may_get && held(b, y) == both + 1 && exchange(a, x, both, b, y, both + 1)) return true;
      }
    }
    for (int y = 0; may_get && y < batches_; ++y) {
      if (held(b, y) > 0 && exchange(a, y, 0, b, y, 1)) return true;
    }
    return false;
  }

  /// Returns whether cores of two batches count alike for two ranks, as long as both keep some.
  bool are_alike(int a, int b, int x, int y) const {
    return domains_.batches[at(x)].kind == domains_.batches[at(y)].kind &&
           nearness_of(a, x) == nearness_of(a, y) && nearness_of(b, x) == nearness_of(b, y);
  }

  /// Returns whether one rank may give another one a core more than it gets.
  bool sizes_fit(int from, int to) const {
    int least = sizes_.most;
    int most = 0;
    for (const int rank : ranks_) {
      const int cores = homes_[at(rank)].count.cores - (rank == from ? 1 : 0) + (rank == to ? 1 : 0);
      least = std::min(least, cores);
      most = std::max(most, cores);
    }
    return least >= sizes_.least && most <= sizes_.most && most - least <= kMostDifference;
  }

  /// Exchanges cores if that is better. Returns whether it did.
  bool exchange(int a, int x, int of_a, int b, int y, int of_b) {
    if (comparisons_ >= limit_) return false;
    ++comparisons_;
    move(a, b, x, of_a);
    move(b, a, y, of_b);
    if (!is_better(a, b)) {
      move(b, a, x, of_a);
      move(a, b, y, of_b);
      return false;
    }
    recount(a);
    recount(b);
    return true;
  }

  /// Compares the counts of two homes with their numbers, which are those before an exchange. All other ranks
  /// keep theirs, and equal numbers in two lists do not change their order, so this is the order of the whole
  /// scores.
  bool is_better(int a, int b) const {
    const Holding& home_a = homes_[at(a)];
    const Holding& home_b = homes_[at(b)];
    for (std::size_t i = 0; i < scale_.numbers().size(); ++i) {
      const auto [best, worst] =
          std::minmax({scale_.number(i, home_a.count, a), scale_.number(i, home_b.count, b)});
      const auto [old_best, old_worst] = std::minmax(home_a.numbers[i], home_b.numbers[i]);
      if (worst != old_worst) return worst < old_worst;
      if (best != old_best) return best < old_best;
    }
    return is_tidying_ &&
           home_a.count.closeness + home_b.count.closeness > home_a.closeness + home_b.closeness;
  }

  /// Returns whether a rank has the best that it could have alone.
  bool has_best(int rank) const {
    for (std::size_t i = 0; i < scale_.numbers().size(); ++i) {
      if (!is_shared_out(scale_.numbers()[i].point) && homes_[at(rank)].numbers[i] > best_[at(rank)][i])
        return false;
    }
    return true;
  }

  /// Returns whether what is shared out differs by one at most among these ranks.
  bool have_even_shares(std::span<const int> ranks) const {
    for (std::size_t i = 0; i < scale_.numbers().size(); ++i) {
      if (!is_shared_out(scale_.numbers()[i].point)) continue;
      int least = homes_[at(ranks.front())].numbers[i];
      int most = least;
      for (const int rank : ranks) {
        least = std::min(least, homes_[at(rank)].numbers[i]);
        most = std::max(most, homes_[at(rank)].numbers[i]);
      }
      if (most - least > 1) return false;
    }
    return true;
  }

  /// Returns whether no exchange among these ranks can be better.
  bool cannot_gain(std::span<const int> ranks) const {
    return std::all_of(ranks.begin(), ranks.end(), [&](int rank) { return has_best(rank); }) &&
           have_even_shares(ranks);
  }

  const Domains& domains_;
  int limit_;
  HomeScale scale_;
  HomeSizes sizes_;
  std::vector<int> ranks_;
  int batches_;
  std::vector<std::vector<int>> best_;  ///< the best numbers by rank
  std::vector<Holding> homes_;          ///< by rank
  std::vector<int> group_;              ///< ranks that exchange at random
  std::vector<Holding> saved_;          ///< the group's homes before
  std::vector<int> lacking_, now_, before_;
  Random random_;
  int comparisons_ = 0;
  bool is_tidying_ = false;  ///< of equally good homes, those with closer cores are better
};

}  // namespace

FoundDivision find_division(const Domains& domains, int most_comparisons) {
  // Of few cores there are few divisions.
  const auto choices = static_cast<std::int64_t>(domains.cores.size()) * domains.ranks();
  const auto limit = static_cast<int>(most_comparisons * std::min<std::int64_t>(choices, 200) / 200);
  Domains coarse = domains;
  for (HomeCore& core : coarse.cores) core.l3 = -1;
  add_batches(coarse);
  HomeSearch without_l3(coarse, limit / 4);
  without_l3.deal_near_to_far();
  const FoundDivision first = without_l3.result();
  HomeSearch search(domains, limit - first.comparisons);
  search.take(first.division);
  FoundDivision found = search.result();
  found.comparisons += first.comparisons;
  return found;
}

}  // namespace zf
