// Copies past the caches, for any Lane. Included as adam_loop.hpp is, under its rules. It uses the members of
// a Lane that adam_loop.hpp and vector_loop.hpp list.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "engine/streaming.hpp"
#include "engine/vector_loop.hpp"

namespace zf {
namespace {

/// Returns how many of `bytes` bytes come before the first line of the cache that begins at `to` or behind
/// it.
inline size_t before_line(const void* to, size_t bytes) {
  const size_t before = (64 - reinterpret_cast<uintptr_t>(to) % 64) % 64;
  return before < bytes ? before : bytes;
}

template <class Lane>
typename Lane::F joined_at(const uint16_t* high, const uint16_t* low) {
  return joined<Lane>(Lane::up(Lane::load_halves(high)), Lane::load_signed_halves(low));
}

/// Joins fewer masters than a vector has, or more.
template <class Lane>
void store_joined(const uint16_t* high, const uint16_t* low, float* to, size_t n) {
  for (size_t i = 0; i < n; i += Lane::width) {
    const size_t some = n - i < Lane::width ? n - i : Lane::width;
    uint16_t padded[2][Lane::width] = {};
    float whole[Lane::width];
    memcpy(padded[0], high + i, some * sizeof(uint16_t));
    memcpy(padded[1], low + i, some * sizeof(uint16_t));
    Lane::store(whole, joined_at<Lane>(padded[0], padded[1]));
    memcpy(to + i, whole, some * sizeof(float));
  }
}

template <class Lane>
void stream_joined(const StreamedArray& array) {
  const uint16_t* const high = array.high;
  const uint16_t* const low = static_cast<const uint16_t*>(array.from);
  float* const to = static_cast<float*>(array.to);
  const size_t n = array.bytes / sizeof(float);
  const size_t first = before_line(to, array.bytes) / sizeof(float);
  store_joined<Lane>(high, low, to, first);
  size_t i = first;
  for (; i + Lane::width <= n; i += Lane::width) Lane::stream(to + i, joined_at<Lane>(high + i, low + i));
  store_joined<Lane>(high + i, low + i, to + i, n - i);
}

template <class Lane>
void stream_bytes(const StreamedArray& array) {
  const char* const from = static_cast<const char*>(array.from);
  char* const to = static_cast<char*>(array.to);
  size_t i = before_line(to, array.bytes);
  memcpy(to, from, i);
  constexpr size_t step = Lane::width * sizeof(float);
  for (; i + step <= array.bytes; i += step) {
    Lane::stream(reinterpret_cast<float*>(to + i),
                 Lane::floats(Lane::load_words(reinterpret_cast<const uint16_t*>(from + i))));
  }
  memcpy(to + i, from + i, array.bytes - i);
}

template <class Lane>
void stream_array(const StreamedArray& array) {
  if (array.high != nullptr) {
    const StandardFloats standard_floats;
    stream_joined<Lane>(array);
  } else {
    stream_bytes<Lane>(array);
  }
  Lane::fence();
}

}  // namespace
}  // namespace zf
