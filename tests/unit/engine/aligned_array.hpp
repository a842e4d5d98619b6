// A vector with data that begins on a 64-byte boundary, as the kernels need, and a comparison of its bits.
#pragma once

#include <cstddef>
#include <cstring>
#include <new>
#include <vector>

namespace zf {

template <class T>
struct CacheLineAllocator {
  using value_type = T;
  CacheLineAllocator() = default;
  template <class U>
  CacheLineAllocator(const CacheLineAllocator<U>&) {}
  T* allocate(std::size_t n) { return static_cast<T*>(::operator new(n * sizeof(T), std::align_val_t(64))); }
  void deallocate(T* at, std::size_t) { ::operator delete(at, std::align_val_t(64)); }
  bool operator==(const CacheLineAllocator&) const { return true; }
};

template <class T>
using AlignedArray = std::vector<T, CacheLineAllocator<T>>;

/// True if all bits are equal: NaN equals itself, and 0 differs from -0.
template <class T>
bool same_bits(const AlignedArray<T>& a, const AlignedArray<T>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

}  // namespace zf
