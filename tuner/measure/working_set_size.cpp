#include "measure/working_set_size.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "base/error.hpp"
#include "engine/working_set.hpp"
#include "os/meminfo.hpp"
#include "text/units.hpp"

namespace zf {

WorkingSetSize working_set_size(std::uint64_t params, int ranks, std::uint64_t cache_bytes,
                                std::uint64_t available_bytes) {
  constexpr std::uint64_t kMinBytes = (std::uint64_t{1} << 30) + (std::uint64_t{64} << 20);
  constexpr std::uint64_t kCachesToLeave = 4;
  const auto count = static_cast<std::uint64_t>(ranks);
  const std::uint64_t enough = std::max(kMinBytes, kCachesToLeave * cache_bytes);
  // More bytes are not more accurate: a 7B model is measured over as many bytes as a 3B one.
  const std::uint64_t wanted = params == 0 ? enough : std::min(enough, params * WorkingSet::kBytesPerElement);
  const std::uint64_t bytes =
      std::min(wanted, available_bytes / 5 * 2);  // the training side adds a quarter of this

  WorkingSetSize size;
  size.elements_per_rank = std::max<std::uint64_t>(1, bytes / WorkingSet::kBytesPerElement / count);
  if (bytes < wanted) {
    size.warning = fmt::format("measured over {} instead of {}, because only {} of memory are available",
                               print_bytes(bytes), print_bytes(wanted), print_bytes(available_bytes));
  } else if (bytes < 2 * cache_bytes) {
    size.warning = fmt::format(
        "measured over only {}, which may stay in the last-level caches ({}): the bandwidths are then not "
        "those of memory",
        print_bytes(bytes), print_bytes(cache_bytes));
  }
  return size;
}

std::uint64_t available_memory_bytes(const SysRoot& sysroot, const Allowed& allowed) {
  const auto available = meminfo_bytes(sysroot.read("/proc/meminfo").value_or(""), "MemAvailable");
  if (!available) throw Error(Exit::runtime_error, "/proc/meminfo: cannot read MemAvailable", "mount /proc");
  // The cgroup's current usage is not subtracted: it includes page cache, which the kernel frees on demand.
  // The callers that choose how much to use take at most half instead.
  return std::min(*available, allowed.memory_bytes.value_or(UINT64_MAX));
}

}  // namespace zf
