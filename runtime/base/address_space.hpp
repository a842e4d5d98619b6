// Whether `ulimit -v` may be why there is no memory.
#pragma once

#include <sys/resource.h>

namespace zf {

/// Returns "raise ulimit -v" if this process has that limit, else `other`. Allocates nothing.
inline const char* memory_hint(const char* other) {
  struct rlimit limit = {};
  const bool limited = ::getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  return limited ? "raise ulimit -v" : other;
}

}  // namespace zf
