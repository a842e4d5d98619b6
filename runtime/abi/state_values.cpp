#include "abi/state_values.hpp"

#include <cassert>
#include <cstring>

#include "engine/half.hpp"

namespace zf {
namespace {

template <class Element>
Element* array_of(const Arena& arena, const GroupBlock& group, ArrayKind kind, std::uint64_t begin) {
  return arena.at<Element>(group.place(kind).offset) + begin;
}

/// The halves of the masters from `begin` on.
struct HalvesOfMasters {
  HalvesOfMasters(const Arena& arena, const GroupBlock& group, std::uint64_t begin)
      : high(array_of<std::uint16_t>(arena, group, ArrayKind::copy, begin)),
        low(array_of<std::uint16_t>(arena, group, ArrayKind::params, begin)) {}
  std::uint16_t* const high;
  std::uint16_t* const low;
};

}  // namespace

bool is_state(const GroupBlock& group, ArrayKind kind) {
  switch (kind) {
    case ArrayKind::params:
    case ArrayKind::moment1:
    case ArrayKind::moment2:
      return true;
    case ArrayKind::moment1_set1:
    case ArrayKind::moment2_set1:
      return group.has_second_moment_set();
    default:
      return false;
  }
}

ElementType stored_type(const GroupBlock& group, ArrayKind kind) {
  if (kind == ArrayKind::params)
    return has_split_masters(group.format) ? ElementType::none : ElementType::f32;
  return has_bf16_moments(group.format) ? ElementType::bf16 : ElementType::f32;
}

void read_values(const Arena& arena, const GroupBlock& group, ArrayKind kind, std::uint64_t begin,
                 std::span<float> values) {
  assert(begin <= group.elements && values.size() <= group.elements - begin);
  switch (stored_type(group, kind)) {
    case ElementType::none: {
      const HalvesOfMasters halves(arena, group, begin);
      for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = f32_of_split({.high = halves.high[i], .low = halves.low[i]});
      return;
    }
    case ElementType::bf16: {
      const auto* const stored = array_of<std::uint16_t>(arena, group, kind, begin);
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = f32_of_bf16(stored[i]);
      return;
    }
    default:
      if (!values.empty())
        std::memcpy(values.data(), array_of<float>(arena, group, kind, begin), values.size_bytes());
  }
}

std::span<std::byte> stored_bytes(const Arena& arena, const GroupBlock& group, ArrayKind kind) {
  const ArrayPlace place = group.place(kind);
  return {arena.at<std::byte>(place.offset), place.bytes};
}

void write_values(const Arena& arena, const GroupBlock& group, ArrayKind kind, std::uint64_t begin,
                  std::span<const float> values) {
  assert(begin <= group.elements && values.size() <= group.elements - begin);
  switch (stored_type(group, kind)) {
    case ElementType::none: {
      const HalvesOfMasters halves(arena, group, begin);
      for (std::size_t i = 0; i < values.size(); ++i) {
        const SplitFloat split = split_of_f32(values[i]);
        halves.high[i] = split.high;
        halves.low[i] = split.low;
      }
      return;
    }
    case ElementType::bf16: {
      auto* const stored = array_of<std::uint16_t>(arena, group, kind, begin);
      for (std::size_t i = 0; i < values.size(); ++i) stored[i] = bf16_of_f32(values[i]);
      return;
    }
    default:
      if (!values.empty())
        std::memcpy(array_of<float>(arena, group, kind, begin), values.data(), values.size_bytes());
  }
}

}  // namespace zf
