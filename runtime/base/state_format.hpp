// How moments and masters are stored, and how many bytes that takes. This is the only place that knows it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/enum_names.hpp"
#include "base/step_types.hpp"

namespace zf {

/// fp32: moments and masters are fp32.
/// bf16: moments are bf16, rounded stochastically (engine/dither.hpp). Masters are fp32.
/// split: a master is the bf16 parameter and 16 low bits beside it (half.hpp). Moments are fp32.
/// The numbers are those of zf_state_format.
enum class StateFormat : std::uint32_t { fp32 = 0, bf16 = 1, split = 2, bf16_split = 3 };

template <>
inline constexpr auto kEnumNames<StateFormat> =
    std::to_array<EnumName<StateFormat>>({{StateFormat::fp32, "fp32"},
                                          {StateFormat::bf16, "bf16"},
                                          {StateFormat::split, "split"},
                                          {StateFormat::bf16_split, "bf16+split"}});

constexpr bool has_bf16_moments(StateFormat format) {
  return format == StateFormat::bf16 || format == StateFormat::bf16_split;
}

constexpr bool has_split_masters(StateFormat format) {
  return format == StateFormat::split || format == StateFormat::bf16_split;
}

/// Bytes of one element of each array. For split masters `master` is the low half. The high half is the
/// parameter, which is counted where the copy is.
struct StateBytes {
  std::size_t master;
  std::size_t moment;  ///< of each of the two moments
};

constexpr StateBytes state_bytes(StateFormat format) {
  return {.master = has_split_masters(format) ? sizeof(std::uint16_t) : sizeof(float),
          .moment = has_bf16_moments(format) ? sizeof(std::uint16_t) : sizeof(float)};
}

/// From `position` of a tensor or group on, elements are numbered from `first_element`, up to the next range:
/// where they do not follow each other in the whole. bf16 moments are rounded by these numbers.
struct ElementRange {
  std::uint64_t position = 0;
  std::uint64_t first_element = 0;
  bool operator==(const ElementRange&) const = default;
};
/// Ranges of a group begin at multiples of this, where also its 16-bit copy is at a cache line.
inline constexpr std::uint64_t kRangeGrain = 32;

/// Returns the bytes of one element: 0 for none.
constexpr std::size_t element_bytes(ElementType type) {
  if (type == ElementType::none) return 0;
  return type == ElementType::f32 ? sizeof(float) : sizeof(std::uint16_t);
}

/// Returns the bytes that a step moves per parameter: it reads gradients, and reads and writes masters and
/// moments. With split masters it also reads and writes the parameters. Otherwise outputs come on top.
constexpr std::size_t step_bytes(StateFormat format, ElementType grad) {
  const StateBytes bytes = state_bytes(format);
  const std::size_t parameter = has_split_masters(format) ? sizeof(std::uint16_t) : 0;
  return element_bytes(grad) + 2 * (bytes.master + 2 * bytes.moment + parameter);
}
/// Returns the bytes per parameter of the step that zf-tune measures: its gradients are fp32.
constexpr std::size_t measured_step_bytes(StateFormat format) { return step_bytes(format, ElementType::f32); }
static_assert(step_bytes(StateFormat::fp32, ElementType::f32) == kAdamBytesPerParam);

}  // namespace zf
