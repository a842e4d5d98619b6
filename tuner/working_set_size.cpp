#include "tuner/working_set_size.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "engine/working_set.hpp"
#include "tuner/values.hpp"

namespace zf {

WorkingSetSize working_set_size(std::uint64_t params, int ranks, std::uint64_t cache_bytes,
                                std::uint64_t available_bytes) {
  constexpr std::uint64_t kMinBytes = (std::uint64_t{1} << 30) + (std::uint64_t{64} << 20);
  constexpr std::uint64_t kCachesToLeave = 4;
  const auto count = static_cast<std::uint64_t>(ranks);
  const std::uint64_t enough = std::max(kMinBytes, kCachesToLeave * cache_bytes);
  // More than enough is no more accurate: a 7B model is measured over the same bytes as a 3B one.
  const std::uint64_t wanted = params == 0 ? enough : std::min(enough, params * WorkingSet::kBytesPerElement);
  const std::uint64_t bytes =
      std::min(wanted, available_bytes / 5 * 2);  // and a quarter of that for the training side

  WorkingSetSize size;
  size.elements_per_rank = std::max<std::uint64_t>(1, bytes / WorkingSet::kBytesPerElement / count);
  if (bytes < wanted) {
    size.warning = fmt::format("measured over {} instead of {}: only {} of memory are available",
                               print_bytes(bytes), print_bytes(wanted), print_bytes(available_bytes));
  } else if (bytes < 2 * cache_bytes) {
    size.warning =
        fmt::format("the {} measured over may stay in the caches ({}): bandwidths are not memory's",
                    print_bytes(bytes), print_bytes(cache_bytes));
  }
  return size;
}

}  // namespace zf
