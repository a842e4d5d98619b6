// Whether `ulimit -v` is why there is no memory.
#pragma once

#include <sys/mman.h>
#include <sys/resource.h>

#include <cstddef>

namespace zf {

/// Returns "raise ulimit -v" if this process has that limit and it leaves no room for so many bytes, else
/// `other`. Allocates nothing.
inline const char* memory_hint(std::size_t bytes, const char* other) {
  struct rlimit limit = {};
  if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return other;
  // Takes addresses alone, so no other limit can refuse it.
  void* const room = ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED) return "raise ulimit -v";
  ::munmap(room, bytes);
  return other;
}

/// Returns what a std::bad_alloc means, whose size nobody knows: an allocator takes up to 64 MiB at once.
inline const char* out_of_memory() {
  return memory_hint(std::size_t{64} << 20, nullptr) == nullptr ? "out of memory"
                                                                : "out of memory; raise ulimit -v";
}

}  // namespace zf
