#include "base/id_set.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace zf {

template <class Id>
IdSet<Id>::IdSet(std::vector<Id> ids) : ids_(std::move(ids)) {
  std::sort(ids_.begin(), ids_.end());
  ids_.erase(std::unique(ids_.begin(), ids_.end()), ids_.end());
}

template <class Id>
bool IdSet<Id>::contains(Id id) const {
  return std::binary_search(ids_.begin(), ids_.end(), id);
}

template <class Id>
bool IdSet<Id>::contains(const IdSet& other) const {
  return std::includes(ids_.begin(), ids_.end(), other.begin(), other.end());
}

template <class Id>
void IdSet<Id>::insert(Id id) {
  const auto at = std::lower_bound(ids_.begin(), ids_.end(), id);
  if (at == ids_.end() || *at != id) ids_.insert(at, id);
}

template <class Id>
IdSet<Id> IdSet<Id>::operator&(const IdSet& other) const {
  IdSet both;
  std::set_intersection(begin(), end(), other.begin(), other.end(), std::back_inserter(both.ids_));
  return both;
}

template <class Id>
IdSet<Id> IdSet<Id>::operator|(const IdSet& other) const {
  IdSet either;
  either.ids_.reserve(size() + other.size());
  std::set_union(begin(), end(), other.begin(), other.end(), std::back_inserter(either.ids_));
  return either;
}

template <class Id>
IdSet<Id> IdSet<Id>::operator-(const IdSet& other) const {
  IdSet rest;
  std::set_difference(begin(), end(), other.begin(), other.end(), std::back_inserter(rest.ids_));
  return rest;
}

template class IdSet<Pu>;
template class IdSet<Node>;

}  // namespace zf
