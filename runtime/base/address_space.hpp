// Whether `ulimit -v` or `ulimit -d` is why there is no memory.
#pragma once

#include <sys/mman.h>
#include <sys/resource.h>

#include <cstddef>

namespace zf {

/// An allocator takes up to so much at once.
inline constexpr std::size_t kAllocatorBytes = std::size_t{64} << 20;

enum class MemoryLimit { none, address_space, data };

inline bool is_limited(decltype(RLIMIT_AS) resource) {
  struct rlimit limit = {};
  return ::getrlimit(resource, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
}

/// Returns whether so many bytes can be mapped like this. They are not touched.
inline bool can_map(std::size_t bytes, int protection, int flags) {
  void* const room = ::mmap(nullptr, bytes, protection, flags | MAP_ANONYMOUS, -1, 0);
  if (room == MAP_FAILED) return false;
  ::munmap(room, bytes);
  return true;
}

/// Returns which limit of this process leaves no room for so many bytes. Allocates nothing.
inline MemoryLimit limit_below(std::size_t bytes) {
  // This takes addresses alone, so no other limit can refuse it.
  if (is_limited(RLIMIT_AS) && !can_map(bytes, PROT_NONE, MAP_PRIVATE | MAP_NORESERVE))
    return MemoryLimit::address_space;
  // This limit holds for private memory. All else that refuses memory refuses shared memory too.
  constexpr int kWritable = PROT_READ | PROT_WRITE;
  if (is_limited(RLIMIT_DATA) && !can_map(bytes, kWritable, MAP_PRIVATE) &&
      can_map(bytes, kWritable, MAP_SHARED))
    return MemoryLimit::data;
  return MemoryLimit::none;
}

/// Returns what to do next if so many bytes were refused: to raise the limit that leaves no room for them, or
/// `other`. Allocates nothing.
inline const char* memory_hint(std::size_t bytes, const char* other) {
  const MemoryLimit limit = limit_below(bytes);
  return limit == MemoryLimit::address_space ? "raise ulimit -v"
         : limit == MemoryLimit::data        ? "raise ulimit -d"
                                             : other;
}

/// Returns what a std::bad_alloc of unknown size means. Allocates nothing.
inline const char* out_of_memory() {
  const MemoryLimit limit = limit_below(kAllocatorBytes);
  return limit == MemoryLimit::address_space ? "out of memory; raise ulimit -v"
         : limit == MemoryLimit::data        ? "out of memory; raise ulimit -d"
                                             : "out of memory; give the job more memory";
}

}  // namespace zf
