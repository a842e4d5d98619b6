// Deals the parts of a step to the members of a team. A member does its own first, then those of others.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>

#include "engine/tensor_step.hpp"
#include "engine/waitable_counter.hpp"

namespace zf {

/// The number of a NUMA node that is not known.
inline constexpr int kUnknownNode = -1;

/// Returns true if a member on node `mine` may take parts of a member that ran on node `theirs` last. Across
/// nodes, a part's memory is likely to be far away. Pure.
inline bool may_steal(int mine, int theirs) {
  return mine == theirs || mine == kUnknownNode || theirs == kUnknownNode;
}

/// Returns the NUMA node on which the calling thread runs now.
int node_of_this_thread();

/// One thread deals. Then every member of the team calls work() once, and all parts are done.
class Dealing {
 public:
  /// Deals the parts to parts.members() members, as the parts were cut. `parts` must live until all calls of
  /// work() have ended.
  void deal(const Parts& parts);

  /// Does the parts that no other thread has begun. member: the number of the calling thread among `members`.
  /// do_part(part) must not throw.
  template <class DoPart>
  void work(std::size_t member, std::size_t members, DoPart do_part) {
    const int node = node_of_this_thread();
    const std::size_t shares = parts_->members();
    // The team may have another size than the one for which the parts were cut.
    for (std::size_t share = member; share < shares; share += members) {
      shares_[share].node.store(node, std::memory_order_relaxed);
      empty(share, do_part);
    }
    std::size_t stolen = 0;
    for (std::size_t i = 1; i < shares; ++i) {
      const std::size_t share = (member + i) % shares;
      if (may_steal(node, shares_[share].node.load(std::memory_order_relaxed)))
        stolen += empty(share, do_part);
    }
    if (stolen != 0) stolen_.fetch_add(stolen, std::memory_order_relaxed);
  }

  /// Returns how many parts were done, since deal(), by another member than the one that had got them.
  std::size_t stolen() const { return stolen_.load(std::memory_order_relaxed); }

 private:
  struct alignas(kLinePair) Share {
    std::atomic<std::size_t> next = 0;  ///< the first part that is not begun
    std::atomic<int> node = kUnknownNode;
  };

  /// Does what is left of a share. Returns the number of parts.
  template <class DoPart>
  std::size_t empty(std::size_t share, DoPart& do_part) {
    const std::size_t end = parts_->first_of_member[share + 1];
    std::size_t done = 0;
    for (;; ++done) {
      // The look first spares others a write to the line of a share that is empty.
      if (shares_[share].next.load(std::memory_order_relaxed) >= end) return done;
      const std::size_t part = shares_[share].next.fetch_add(1, std::memory_order_relaxed);
      if (part >= end) return done;
      do_part(parts_->parts[part]);
    }
  }

  const Parts* parts_ = nullptr;
  std::unique_ptr<Share[]> shares_;
  std::size_t capacity_ = 0;
  std::atomic<std::size_t> stolen_ = 0;
};

}  // namespace zf
