#include "worker/pool_cpus.hpp"

#include <cassert>

#include "base/cpu_list.hpp"
#include "base/format.hpp"
#include "base/text.hpp"

namespace zf {
namespace {

std::string note_of(const PoolCpus& placed) {
  const std::size_t threads = placed.of_thread.size();
  const CpuSet used(placed.of_thread);
  return format_text("{} of the pool {} gone: {} run{} on {}", print_cpus(placed.lost),
                     placed.lost.size() == 1 ? "is" : "are", print_count(threads, "thread"),
                     threads == 1 ? "s" : "", print(used));
}

}  // namespace

PoolCpus place_pool(const CpuSet& pool, const CpuSet& home, const CpuSet& usable) {
  assert(!pool.empty() && !usable.empty());
  PoolCpus placed = {.of_thread = {pool.begin(), pool.end()}, .lost = pool - usable, .note = {}};
  if (placed.lost.empty()) return placed;
  CpuSet left = pool & usable;
  if (left.empty()) left = home & usable;
  if (left.empty()) left = usable;
  auto next = left.begin();
  for (Pu& pu : placed.of_thread) {
    if (usable.contains(pu)) continue;
    pu = *next;
    if (++next == left.end()) next = left.begin();
  }
  placed.note = note_of(placed);
  return placed;
}

}  // namespace zf
