// The two kinds of number that must never be mixed up, a PU and a NUMA node, and sets of them.
#pragma once

#include <compare>
#include <cstddef>
#include <initializer_list>
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
  explicit IdSet(std::vector<Id> ids);

  bool empty() const { return ids_.empty(); }
  std::size_t size() const { return ids_.size(); }
  auto begin() const { return ids_.begin(); }
  auto end() const { return ids_.end(); }
  /// Return the lowest and the highest member. Precondition: not empty.
  Id first() const { return ids_.front(); }
  Id last() const { return ids_.back(); }

  bool contains(Id id) const;
  bool contains(const IdSet& other) const;
  bool intersects(const IdSet& other) const { return !(*this & other).empty(); }

  void insert(Id id);
  IdSet& operator|=(const IdSet& other) { return *this = *this | other; }

  IdSet operator&(const IdSet& other) const;
  IdSet operator|(const IdSet& other) const;
  /// Returns the members that are not in `other`.
  IdSet operator-(const IdSet& other) const;
  bool operator==(const IdSet&) const = default;

 private:
  std::vector<Id> ids_;
};

// Compiled once, in id_set.cpp.
extern template class IdSet<Pu>;
extern template class IdSet<Node>;

using CpuSet = IdSet<Pu>;
using NodeSet = IdSet<Node>;

}  // namespace zf
