#include "engine/working_set.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <utility>

#include "base/address_space.hpp"
#include "base/error.hpp"
#include "base/format.hpp"
#include "base/stagger.hpp"
#include "base/text.hpp"
#include "engine/dither.hpp"
#include "engine/half.hpp"
#include "engine/isa.hpp"
#include "engine/slices.hpp"

namespace zf {
namespace {

constexpr std::size_t kHugePageBytes = std::size_t{2} << 20;
constexpr std::size_t kArrays = 4;
constexpr std::size_t kOwnArrays = 4;  // parameters, moments, and the high halves of split masters

/// Returns the distance in bytes from the start of one array to the start of the next.
std::size_t stride_of(std::size_t elements) {
  return (elements * sizeof(float) + kHugePageBytes - 1) / kHugePageBytes * kHugePageBytes + kStaggerBytes;
}

/// Fills in values as in the middle of a training. Gradients lie between 1e-3 and 2e-3, so that the additions
/// of the roofline only increase a moment, and a step brings it back to the size of the gradient.
void fill(const AdamArrays& slice, float* g) {
  float* const p = static_cast<float*>(slice.p);
  float* const m = static_cast<float*>(slice.m);
  float* const v = static_cast<float*>(slice.v);
  for (std::size_t i = 0; i < slice.n; ++i) {
    const float spread = static_cast<float>(i % 1024) / 1024.0F;
    p[i] = 1.0F + spread;
    g[i] = 1e-3F * (1.0F + spread);
    m[i] = 1e-3F;
    v[i] = 1e-6F;
  }
}

template <class Element>
void set(void* array, std::size_t i, Element value) {
  static_cast<Element*>(array)[i] = value;
}

/// Gives the arrays of a format the values of the fp32 ones.
void fill_own(const AdamArrays& own, const AdamArrays& fp32, StateFormat format) {
  for (std::size_t i = 0; i < own.n; ++i) {
    const float p = static_cast<const float*>(fp32.p)[i];
    if (has_split_masters(format)) {
      const SplitFloat halves = split_of_f32(p);
      set(own.copy, i, halves.high);
      set(own.p, i, halves.low);
    } else {
      set(own.p, i, p);
    }
    for (const auto& [to, from] : {std::pair(own.m, fp32.m), std::pair(own.v, fp32.v)}) {
      const float moment = static_cast<const float*>(from)[i];
      if (has_bf16_moments(format)) {
        set(to, i, bf16_of_f32(moment));
      } else {
        set(to, i, moment);
      }
    }
  }
}

}  // namespace

WorkingSet::WorkingSet(Pool& pool, std::size_t elements, Memory memory, StateFormat format)
    : elements_(elements), format_(format) {
  constexpr std::size_t kMost = std::numeric_limits<std::size_t>::max() / kBytesPerElement / 4;
  const std::size_t stride = elements <= kMost ? stride_of(elements) : 0;
  const bool has_own = format != StateFormat::fp32;
  mapping_bytes_ = (kArrays + (has_own ? kOwnArrays : 0)) * stride + kHugePageBytes;
  int error = ENOMEM;
  void* mapping = MAP_FAILED;
  if (elements <= kMost) {
    const int sharing = memory == Memory::shared ? MAP_SHARED : MAP_PRIVATE;
    mapping = ::mmap(nullptr, mapping_bytes_, PROT_READ | PROT_WRITE, sharing | MAP_ANONYMOUS, -1, 0);
    error = errno;
  }
  if (mapping == MAP_FAILED) {
    throw_errno(error,
                format_text("cannot allocate {} for {} parameters",
                            print_bytes(std::min<std::uint64_t>(elements, UINT64_MAX / kBytesPerElement) *
                                        kBytesPerElement),
                            elements),
                memory_hint(mapping_bytes_, "ask for fewer (--params)"));
  }
  mapping_ = mapping;
  // This is a hint only. If huge pages are off, small ones are used.
  static_cast<void>(::madvise(mapping_, mapping_bytes_, MADV_HUGEPAGE));

  const auto address = reinterpret_cast<std::uintptr_t>(mapping_);
  char* const base =
      static_cast<char*>(mapping_) + (kHugePageBytes - address % kHugePageBytes) % kHugePageBytes;
  const auto array = [&](std::size_t i) { return base + i * stride; };
  float* arrays[kArrays];
  for (std::size_t i = 0; i < kArrays; ++i) arrays[i] = reinterpret_cast<float*>(array(i));

  const std::vector<Slice> slices = slices_of(elements, pool.size());
  slices_.resize(slices.size());
  if (has_own) own_slices_.resize(slices.size());
  pool.run([&](std::size_t member) {
    const Slice& slice = slices[member];
    float* const g = arrays[1] + slice.begin;
    AdamArrays& mine = slices_[member];
    mine.p = arrays[0] + slice.begin;
    mine.g = g;
    mine.m = arrays[2] + slice.begin;
    mine.v = arrays[3] + slice.begin;
    mine.n = slice.size();
    mine.prefetch_distance = preferred_prefetch_distance();
    fill(mine, g);
    if (!has_own) return;
    const StateBytes bytes = state_bytes(format);
    AdamArrays& own = own_slices_[member];
    own = mine;
    own.p = array(kArrays) + slice.begin * bytes.master;
    own.m = array(kArrays + 1) + slice.begin * bytes.moment;
    own.v = array(kArrays + 2) + slice.begin * bytes.moment;
    if (has_split_masters(format)) own.copy = array(kArrays + 3) + slice.begin * sizeof(std::uint16_t);
    own.dither = dither_at(0, slice.begin);
    fill_own(own, mine, format);
  });
}

WorkingSet::~WorkingSet() { ::munmap(mapping_, mapping_bytes_); }

}  // namespace zf
