#include "measure/training_buffer.hpp"

#if defined(__x86_64__)
#include <emmintrin.h>
#endif
#include <sys/mman.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstring>

#include "base/address_space.hpp"
#include "base/error.hpp"
#include "base/format.hpp"

namespace zf {
namespace {

constexpr std::size_t kSmallest = std::size_t{1} << 20;

}  // namespace

TrainingBuffer::TrainingBuffer(std::size_t bytes)
    : elements_(std::max(kCopyBytes, std::max(bytes, kSmallest) / 8 / kCopyBytes * kCopyBytes)),
      bytes_(elements_ * 8) {
  void* const memory = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    throw_errno(errno, format_text("cannot map {} MiB of memory for the training side", bytes_ >> 20),
                memory_hint(bytes_, "give the job more memory"));
  base_ = static_cast<char*>(memory);
}

TrainingBuffer::~TrainingBuffer() { ::munmap(base_, bytes_); }

void TrainingBuffer::touch(std::size_t begin, std::size_t end) {
  for (std::size_t i = begin; i < end; ++i) {
    sums()[i] = 1.0F;
    gradients()[i] = 0x3a83;  // 1e-3 in bf16
    copy_from()[i] = 1;
    copy_to()[i] = 0;
  }
}

void TrainingBuffer::add(std::size_t begin, std::size_t end) {
  float* const to = sums();
  const std::uint16_t* const from = gradients();
  for (std::size_t i = begin; i < end; ++i) {
    const std::uint32_t bits = static_cast<std::uint32_t>(from[i]) << 16;
    float gradient = 0;
    static_assert(sizeof gradient == sizeof bits);
    __builtin_memcpy(&gradient, &bits, sizeof gradient);
    to[i] += 1e-6F * gradient;
  }
}

void TrainingBuffer::copy_piece() {
  stream_copy(copy_to() + place_, copy_from() + place_, kCopyBytes);
  place_ = (place_ + kCopyBytes) % elements_;
}

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
