// The two kinds of number that must never be mixed up, a PU and a NUMA node, and sets of them.
#pragma once

#include <algorithm>
#include <compare>
#include <cstddef>
#include <initializer_list>
#include <iterator>
#include <utility>
#include <vector>

namespace zf {

/// One hardware thread, named by its OS index: the N of /sys/devices/system/cpu/cpuN.
/// Never a count, never a logical index.
struct Pu {
  int os_index = 0;
  auto operator<=>(const Pu&) const = default;
};

/// One NUMA node, named by its OS index: the N of /sys/devices/system/node/nodeN. The numbers may have gaps.
struct Node {
  int os_index = 0;
  auto operator<=>(const Node&) const = default;
};

/// A set as a value, always in ascending order of OS indexes.
template <class Id>
class IdSet {
 public:
  IdSet() = default;
  IdSet(std::initializer_list<Id> ids) : IdSet(std::vector<Id>(ids)) {}
  explicit IdSet(std::vector<Id> ids) : ids_(std::move(ids)) {
    std::sort(ids_.begin(), ids_.end());
    ids_.erase(std::unique(ids_.begin(), ids_.end()), ids_.end());
  }

  bool empty() const { return ids_.empty(); }
  std::size_t size() const { return ids_.size(); }
  auto begin() const { return ids_.begin(); }
  auto end() const { return ids_.end(); }
  /// Return the lowest and the highest member. Precondition: not empty.
  Id first() const { return ids_.front(); }
  Id last() const { return ids_.back(); }

  bool contains(Id id) const { return std::binary_search(ids_.begin(), ids_.end(), id); }
  bool contains(const IdSet& other) const {
    return std::includes(ids_.begin(), ids_.end(), other.begin(), other.end());
  }
  bool intersects(const IdSet& other) const { return !(*this & other).empty(); }

  void insert(Id id) {
    const auto at = std::lower_bound(ids_.begin(), ids_.end(), id);
    if (at == ids_.end() || *at != id) ids_.insert(at, id);
  }
  IdSet& operator|=(const IdSet& other) { return *this = *this | other; }

  friend IdSet operator&(const IdSet& a, const IdSet& b) {
    return merged(a, b, [](auto... its) { return std::set_intersection(its...); });
  }
  friend IdSet operator|(const IdSet& a, const IdSet& b) {
    return merged(a, b, [](auto... its) { return std::set_union(its...); });
  }
  friend IdSet operator-(const IdSet& a, const IdSet& b) {
    return merged(a, b, [](auto... its) { return std::set_difference(its...); });
  }
  bool operator==(const IdSet&) const = default;

 private:
  template <class Merge>
  static IdSet merged(const IdSet& a, const IdSet& b, Merge merge) {
    IdSet result;
    merge(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(result.ids_));
    return result;
  }

  std::vector<Id> ids_;
};

using CpuSet = IdSet<Pu>;
using NodeSet = IdSet<Node>;

}  // namespace zf
