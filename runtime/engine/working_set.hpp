// Arrays for measuring, first touched by the threads that will update them.
#pragma once

#include <cstddef>
#include <vector>

#include "engine/kernel.hpp"
#include "engine/pool.hpp"

namespace zf {

/// p, g, m and v of `elements` fp32 each, page-aligned, cut into one slice per pool member. The values are
/// such that up to 10,000 steps and roofline passes, in any order, keep them finite and not denormal.
class WorkingSet {
 public:
  static constexpr std::size_t kBytesPerElement = 16;

  /// The memory: private to this process, or shared as the runtime's arena is. Linux has a setting for the
  /// huge pages of each.
  enum class Memory { own, shared };

  /// Throws Error(runtime_error) that says how much was asked for if the memory cannot be allocated.
  WorkingSet(Pool& pool, std::size_t elements, Memory memory = Memory::own);
  ~WorkingSet();
  WorkingSet(const WorkingSet&) = delete;
  WorkingSet& operator=(const WorkingSet&) = delete;

  std::size_t elements() const { return elements_; }
  /// Returns the slice of one member, which may be empty.
  const AdamArrays& slice(std::size_t member) const { return slices_[member]; }

 private:
  std::size_t elements_;
  void* mapping_ = nullptr;
  std::size_t mapping_bytes_ = 0;
  std::vector<AdamArrays> slices_;
};

}  // namespace zf
