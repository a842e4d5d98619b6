#include "engine/prefetch.hpp"

namespace zf {
namespace {

/// 1 KiB of each array; from 512 bytes to 2 KiB all is the same.
[[maybe_unused]] constexpr std::size_t kAhead = 256;

}  // namespace

std::size_t prefetch_elements() {
#if defined(__x86_64__)
  static const bool is_intel = __builtin_cpu_is("intel") != 0;
  return is_intel ? kAhead : 0;
#else
  return 0;
#endif
}

}  // namespace zf
