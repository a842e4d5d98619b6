// The letters of the formulas.
#include <algorithm>
#include <array>
#include <bit>
#include <cassert>

#include "base/state_format.hpp"
#include "base/step_types.hpp"
#include "fit/formulas.hpp"
#include "ipc/arena_layout.hpp"

namespace zf {
namespace {

/// Returns the part of `elements` that one of the ranks has, rounded up.
std::uint64_t share_of(std::uint64_t elements, const FitJob& job) {
  return (elements + job.world() - 1) / job.world();
}

std::uint64_t trained_share(const FitJob& job) { return share_of(job.model.trainable, job); }

/// Returns the bytes per parameter that load_state_dict() of ours in place needs for a moment. torch casts
/// each tensor of the state that has another type to that of the parameter. Afterwards ours makes fp32
/// moments of bf16 ones again, for 16-bit parameters.
std::uint64_t cast_bytes(const FitJob& job) {
  if (has_bf16_moments(job.state)) return 2 * sizeof(float);
  return job.is_half() ? 2 + 2 * 2 : 0;
}

std::uint64_t unit_bytes(char unit, const FitJob& job) {
  const bool is_torchs = job.stepper == StepMethod::torch || job.stepper == StepMethod::fsdp2;
  switch (unit) {
    case 'd':
      return bytes_of(job.type);
    case 'w':  // in place, fp32 parameters are their masters
      return is_torchs || (job.stepper != StepMethod::native && !job.is_half())
                 ? 0
                 : state_bytes(job.state).master;
    case 'm':
      return is_torchs ? bytes_of(job.type) : state_bytes(job.state).moment;
    case 'c':
      return is_torchs ? 0 : cast_bytes(job);
    case 'e':
      return job.has(FitExtra::fp32_accumulation) ? 4 : bytes_of(job.type);
    default:
      return 1;
  }
}

/// Returns the bytes of the arena's gradients, of the log of steps that begin in backward, and of its
/// padding. Gradients have the model's type, or with a ZeRO stage fp32.
std::uint64_t arena_gradients(const FitJob& job) {
  const ElementType type = job.type == ParameterType::bf16   ? ElementType::bf16
                           : job.type == ParameterType::fp16 ? ElementType::f16
                                                             : ElementType::f32;
  GroupShape group;
  group.elements = job.stage > 0 ? trained_share(job) : job.model.trainable;
  group.grad_type = job.stage > 0 ? ElementType::f32 : type;
  group.copy_type = job.is_half() ? type : ElementType::none;
  group.grad_buffers = job.mode == Mode::wait || job.mode == Mode::exact ? 1 : 2;
  group.format = job.state;
  group.speculative = job.has(FitExtra::speculate);
  const StateBytes each = state_bytes(job.state);
  return arena_layout({group}).bytes -
         group.elements * (each.master + 2 * each.moment + element_bytes(group.copy_type));
}

/// Returns by how much torch rounds up one block of pinned memory: to a power of two.
std::uint64_t rounding_of(std::uint64_t bytes) { return bytes > 0 ? std::bit_ceil(bytes) - bytes : 0; }

/// Returns the same for all that ZeRO pins of a partition.
std::uint64_t rounding_of_zero(const FitJob& job) {
  const std::uint64_t elements = trained_share(job);
  if (!job.pinned) return 0;
  if (job.stage < 3) return 2 * rounding_of(4 * elements) + rounding_of(bytes_of(job.type) * elements);
  return elements / job.sub_group * rounding_of(4 * job.sub_group) +
         rounding_of(4 * (elements % job.sub_group)) + rounding_of(unit_bytes('e', job) * elements);
}

std::uint64_t rounding_of_copy(const FitJob& job) {
  return rounding_of(bytes_of(job.type) * trained_share(job));
}

struct Quantity {
  char letter;
  std::uint64_t (*value)(const FitJob&);
};

constexpr auto kQuantities = std::to_array<Quantity>({
    {'P', [](const FitJob& job) { return job.model.params; }},
    {'p', [](const FitJob& job) { return share_of(job.model.params, job); }},
    {'T', [](const FitJob& job) { return job.model.trainable; }},
    {'t', trained_share},
    {'F', [](const FitJob& job) { return job.model.params - job.model.trainable; }},
    {'f', [](const FitJob& job) { return share_of(job.model.params - job.model.trainable, job); }},
    {'S', [](const FitJob& job) { return job.model.layer; }},
    {'s', [](const FitJob& job) { return share_of(job.model.layer, job); }},
    {'L', [](const FitJob& job) { return job.model.largest; }},
    {'K', [](const FitJob& job) { return job.model.largest_trained(); }},
    {'G', [](const FitJob& job) { return std::min(job.bucket, job.model.trainable); }},
    {'H', [](const FitJob& job) { return std::min(job.sub_group, trained_share(job)); }},
    {'A', arena_gradients},
    {'R', rounding_of_zero},
    {'V', [](const FitJob& job) { return job.pinned ? rounding_of_copy(job) : 0; }},
    {'X', rounding_of_copy},
    {'B',
     [](const FitJob& job) {
       const std::uint64_t bytes = job.world() > 1 ? bytes_of(job.type) * job.model.trainable : 0;
       return std::min(bytes, std::uint64_t{500} << 20);
     }},
});

}  // namespace

std::uint64_t bytes_of(const Term& term, const FitJob& job) {
  const auto* const found = std::ranges::find(kQuantities, term.quantity, &Quantity::letter);
  assert(found != kQuantities.end());
  return term.number * unit_bytes(term.unit, job) * found->value(job);
}

}  // namespace zf
