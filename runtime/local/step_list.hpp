// The tensors of one call, and how they are cut. Most lists come again and again, so the cut is kept.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "engine/tensor_step.hpp"

namespace zf {

class StepList {
 public:
  /// What the next step does: written anew for each call, in the order of the list.
  std::vector<TensorStep> tensors;
  /// The ranges of all tensors, to which they point.
  std::vector<ElementRange> ranges;
  /// Counts that grow by 1 when all tensors are stepped. Null pointers are left out.
  std::vector<float*> counters;

  /// Cuts the tensors for so many members, unless the last call had arrays of the same sizes at the same
  /// places. Throws Error(usage) that names the index of a tensor with arrays that overlap each other.
  void prepare(std::size_t members);

  /// Returns the parts of each batch. Tensors with arrays that overlap are in different batches, which must
  /// be stepped in this order. The numbers of tensors are those in `tensors`.
  std::span<const Parts> batches() const { return {batches_.data(), batch_count_}; }

 private:
  /// What the cut depends on.
  struct Place {
    const void* p;
    const void* m;
    const void* v;
    const void* copy;
    std::size_t elements;
    StateFormat format;
    bool operator==(const Place&) const = default;
  };
  bool is_as_before(std::size_t members) const;
  void remember(std::size_t members);
  void cut_batches(std::size_t members);
  /// Cuts the tensors of these numbers into one batch.
  void cut_batch(std::span<const std::size_t> numbers, std::size_t members, Parts& batch);
  static Place place_of(const TensorStep& step) {
    return {step.p, step.m, step.v, step.copy, step.elements, step.format};
  }

  std::vector<Place> places_;  ///< of the list that was cut
  std::size_t members_ = 0;    ///< for which it was cut; 0: none was
  std::vector<Parts> batches_;
  std::size_t batch_count_ = 0;  ///< the vector keeps what was more
};

}  // namespace zf
