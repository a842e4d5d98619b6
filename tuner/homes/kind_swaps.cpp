#include "homes/kind_swaps.hpp"

#include <algorithm>
#include <functional>
#include <iterator>
#include <set>
#include <vector>

#include "homes/index.hpp"

namespace zf {
namespace {

using Cores = std::vector<int>;

/// The swaps of cores of one kind for slower ones.
class KindSwaps {
 public:
  KindSwaps(const Domains& domains, Division& division, int kind)
      : domains_(domains), division_(division), kind_(kind) {
    for (const Domain& domain : domains.all)
      domain_of_.insert(domain_of_.end(), at(domain.size), static_cast<int>(&domain - domains.all.data()));
  }

  /// Sorts each rank's cores domain by domain; the domains keep their order.
  void sort() {
    for (Cores& cores : division_) {
      for (auto begin = cores.begin(); begin != cores.end();) {
        const auto end = std::find_if(begin, cores.end(), [&, domain = domain_of_[at(*begin)]](int core) {
          return domain_of_[at(core)] != domain;
        });
        std::sort(begin, end);
        begin = end;
      }
    }
  }

  /// Makes the first swap that helps; returns whether there was one.
  bool once() {
    for (Cores& rich : division_) {
      for (Cores& poor : division_) {
        if (count(rich) >= count(poor) + 2 && swap(rich, poor)) return true;
      }
    }
    return false;
  }

 private:
  int kind_of(int core) const { return domains_.cores[at(core)].kind; }

  int count(const Cores& cores) const {
    return static_cast<int>(
        std::count_if(cores.begin(), cores.end(), [&](int core) { return kind_of(core) >= kind_; }));
  }

  bool swap(Cores& rich, Cores& poor) {
    for (int& fast : rich) {
      if (kind_of(fast) != kind_) continue;
      for (int& slow : poor) {
        const bool beside = domain_of_[at(fast)] == domain_of_[at(slow)] &&
                            domains_.cores[at(fast)].l3 == domains_.cores[at(slow)].l3;
        if (kind_of(slow) >= kind_ || !beside) continue;
        std::swap(fast, slow);
        return true;
      }
    }
    return false;
  }

  const Domains& domains_;
  Division& division_;
  int kind_;
  std::vector<int> domain_of_;
};

}  // namespace

void swap_kinds(const Domains& domains, Division& division) {
  std::set<int, std::greater<>> kinds;
  for (const HomeCore& core : domains.cores) kinds.insert(core.kind);
  if (kinds.size() < 2) return;
  kinds.erase(std::prev(kinds.end()));  // every core is at least of the slowest kind
  for (const int kind : kinds) {
    KindSwaps swaps(domains, division, kind);
    while (swaps.once()) {
    }
    swaps.sort();
  }
}

}  // namespace zf
