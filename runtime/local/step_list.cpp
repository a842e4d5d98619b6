#include "local/step_list.hpp"

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/error.hpp"
#include "base/format.hpp"
#include "local/overlaps.hpp"

namespace zf {
namespace {

MemoryRange range_of(const void* array, std::size_t bytes) {
  const auto begin = reinterpret_cast<std::uintptr_t>(array);
  return {begin, array == nullptr ? begin : begin + bytes};
}

WrittenRanges written_by(const TensorStep& step) {
  const StateBytes bytes = state_bytes(step.format);
  return {range_of(step.p, step.elements * bytes.master), range_of(step.m, step.elements * bytes.moment),
          range_of(step.v, step.elements * bytes.moment),
          range_of(step.copy, step.elements * sizeof(std::uint16_t))};
}

/// Throws if two of the arrays that a step writes share memory.
void check_arrays(const TensorStep& step, std::size_t index) {
  constexpr std::array kNames = {"p", "state[0]", "state[1]", "copy"};
  const WrittenRanges written = written_by(step);
  for (std::size_t i = 0; i < written.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (!overlap(written[i], written[j])) continue;
      throw Error(Exit::usage,
                  format_text("tensor {}: {} and {} overlap in memory", index, kNames[j], kNames[i]),
                  "give each array memory of its own");
    }
  }
}

}  // namespace

void StepList::prepare(std::size_t members) {
  if (is_as_before(members)) return;
  for (std::size_t i = 0; i < tensors.size(); ++i) check_arrays(tensors[i], i);
  members_ = 0;  // if memory runs out on the way, nothing is remembered
  cut_batches(members);
  remember(members);
}

bool StepList::is_as_before(std::size_t members) const {
  return members == members_ && places_.size() == tensors.size() &&
         std::equal(tensors.begin(), tensors.end(), places_.begin(),
                    [](const TensorStep& step, const Place& place) { return place_of(step) == place; });
}

void StepList::remember(std::size_t members) {
  places_.clear();
  for (const TensorStep& step : tensors) places_.push_back(place_of(step));
  members_ = members;
}

void StepList::cut_batches(std::size_t members) {
  std::vector<WrittenRanges> written;
  written.reserve(tensors.size());
  for (const TensorStep& step : tensors) written.push_back(written_by(step));
  const std::vector<std::size_t> batch_of = batches_without_overlap(written);
  batch_count_ = batch_of.empty() ? 0 : *std::max_element(batch_of.begin(), batch_of.end()) + 1;
  if (batches_.size() < batch_count_) batches_.resize(batch_count_);
  if (batch_count_ == 1) return cut(tensors, members, batches_.front());
  std::vector<std::size_t> numbers;
  for (std::size_t batch = 0; batch < batch_count_; ++batch) {
    numbers.clear();
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      if (batch_of[i] == batch) numbers.push_back(i);
    }
    cut_batch(numbers, members, batches_[batch]);
  }
}

void StepList::cut_batch(std::span<const std::size_t> numbers, std::size_t members, Parts& batch) {
  std::vector<TensorStep> chosen;
  chosen.reserve(numbers.size());
  for (const std::size_t number : numbers) chosen.push_back(tensors[number]);
  cut(chosen, members, batch);
  for (Part& part : batch.parts) part.tensor = numbers[part.tensor];
}

}  // namespace zf
