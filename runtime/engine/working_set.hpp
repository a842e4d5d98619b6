// Arrays for measuring, first touched by the threads that will update them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/state_format.hpp"
#include "engine/kernel.hpp"
#include "engine/pool.hpp"

namespace zf {

/// p, g, m and v of `elements` fp32 each, page-aligned, cut into one slice per pool member. The values are
/// such that up to 10,000 steps and roofline passes, in any order, keep them finite and not denormal. In
/// another state format than fp32 the step has parameters and moments of its own, and the same gradients.
class WorkingSet {
 public:
  static constexpr std::size_t kBytesPerElement = 16;  ///< in the format fp32
  /// Returns the bytes of an element in any format.
  static constexpr std::size_t bytes_per_element(StateFormat format) {
    return format == StateFormat::fp32 ? kBytesPerElement : kBytesPerElement + own_bytes(format);
  }

  /// The memory: private to this process, or shared as the runtime's arena is. Linux has a setting for the
  /// huge pages of each.
  enum class Memory { own, shared };

  /// Throws Error(runtime_error) that says how much was asked for if the memory cannot be allocated.
  WorkingSet(Pool& pool, std::size_t elements, Memory memory = Memory::own,
             StateFormat format = StateFormat::fp32);
  ~WorkingSet();
  WorkingSet(const WorkingSet&) = delete;
  WorkingSet& operator=(const WorkingSet&) = delete;

  std::size_t elements() const { return elements_; }
  /// Returns the fp32 slice of one member, which may be empty.
  const AdamArrays& slice(std::size_t member) const { return slices_[member]; }
  /// Returns the first part of slice(member), cut so that a roofline pass over it moves as many bytes as a
  /// step in the set's format.
  AdamArrays roofline_slice(std::size_t member) const {
    AdamArrays slice = slices_[member];
    slice.n = slice.n * measured_step_bytes(format_) / measured_step_bytes(StateFormat::fp32);
    return slice;
  }
  /// Returns the slice of one member for a step in the set's format.
  const AdamArrays& step_slice(std::size_t member) const {
    return own_slices_.empty() ? slices_[member] : own_slices_[member];
  }

 private:
  static constexpr std::size_t own_bytes(StateFormat format) {
    const std::size_t high = has_split_masters(format) ? sizeof(std::uint16_t) : 0;
    return state_bytes(format).master + 2 * state_bytes(format).moment + high;
  }

  std::size_t elements_;
  StateFormat format_;
  void* mapping_ = nullptr;
  std::size_t mapping_bytes_ = 0;
  std::vector<AdamArrays> slices_;
  std::vector<AdamArrays> own_slices_;  ///< of a format other than fp32
};

}  // namespace zf
