#include "tuner/stream_copy.hpp"

#include <cassert>
#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace zf {

void stream_copy(void* to, const void* from, std::size_t bytes) {
  assert(bytes % 64 == 0 && reinterpret_cast<std::uintptr_t>(to) % 64 == 0);
#if defined(__x86_64__)
  const auto* source = static_cast<const __m128i*>(from);
  auto* target = static_cast<__m128i*>(to);
  for (std::size_t i = 0; i < bytes / sizeof(__m128i); ++i) {
    _mm_stream_si128(target + i, _mm_load_si128(source + i));
  }
  _mm_sfence();
#else
  std::memcpy(to, from, bytes);
#endif
}

}  // namespace zf
