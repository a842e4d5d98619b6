#include "measure/working_set_size.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/format.hpp"
#include "engine/working_set.hpp"
#include "os/meminfo.hpp"
#include "text/units.hpp"

namespace zf {
namespace {

bool may_stay_in(std::uint64_t cache_bytes, std::uint64_t bytes) { return bytes < 2 * cache_bytes; }

std::string caches_clause(std::uint64_t cache_bytes) {
  return format_text("may stay in the last-level caches ({}): the bandwidths are then not those of memory",
                     print_bytes(cache_bytes));
}

}  // namespace

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
    size.warning = format_text("measured over {} instead of {}, because only {} of memory are available",
                               print_bytes(bytes), print_bytes(wanted), print_bytes(available_bytes));
  } else if (may_stay_in(cache_bytes, bytes)) {
    size.warning =
        format_text("measured over only {}, which {}", print_bytes(bytes), caches_clause(cache_bytes));
  }
  return size;
}

WorkingSetSize within_budget(const WorkingSetSize& whole, int ranks, std::uint64_t cache_bytes,
                             Nanoseconds budget_ns) {
  // A first visit of the whole took 0.8 to 3.3 s, most of it to touch the memory first (virtual machine,
  // 2 vCPUs of an AMD EPYC, Zen 4).
  constexpr Nanoseconds kEnoughForTheWhole = 4 * kSecondNs;
  constexpr std::uint64_t kFewestBytes = std::uint64_t{64} << 20;
  const std::uint64_t bytes_per_element = WorkingSet::kBytesPerElement * static_cast<std::uint64_t>(ranks);
  const std::uint64_t whole_bytes = whole.elements_per_rank * bytes_per_element;
  if (budget_ns == 0 || budget_ns >= kEnoughForTheWhole || whole_bytes <= kFewestBytes) return whole;

  const double share = static_cast<double>(budget_ns) / static_cast<double>(kEnoughForTheWhole);
  const auto bytes =
      std::max(kFewestBytes, static_cast<std::uint64_t>(share * static_cast<double>(whole_bytes)));
  WorkingSetSize size;
  size.elements_per_rank = bytes / bytes_per_element;
  size.warning = format_text("measured over only {} instead of {}, because the budget is only {}",
                             print_bytes(bytes), print_bytes(whole_bytes), print_duration(budget_ns));
  if (may_stay_in(cache_bytes, bytes)) size.warning += "; it " + caches_clause(cache_bytes);
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
