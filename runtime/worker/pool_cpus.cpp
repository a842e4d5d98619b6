#include "worker/pool_cpus.hpp"

#include <cassert>

#include "base/cpu_list.hpp"
#include "base/format.hpp"
#include "base/text.hpp"

namespace zf {
namespace {

std::string note_of(const CpuSet& lost, std::size_t threads, const CpuSet& used) {
  return format_text("{} of the pool {} gone: {} run{} on {}", print_cpus(lost),
                     lost.size() == 1 ? "is" : "are", print_count(threads, "thread"), threads == 1 ? "s" : "",
                     print(used));
}

/// Returns the usable CPUs of the pool, else those of the home, else all that are usable.
CpuSet nearest_left(const CpuSet& pool, const CpuSet& home, const CpuSet& usable) {
  for (const CpuSet& wanted : {pool, home}) {
    if (CpuSet left = wanted & usable; !left.empty()) return left;
  }
  return usable;
}

}  // namespace

PoolCpus place_pool(const CpuSet& pool, const CpuSet& home, const CpuSet& usable) {
  assert(!pool.empty() && !usable.empty());
  PoolCpus placed = {
      .of_thread = {pool.begin(), pool.end()}, .cpus = pool, .lost = pool - usable, .note = {}};
  if (placed.lost.empty()) return placed;
  const CpuSet left = nearest_left(pool, home, usable);
  auto next = left.begin();
  for (Pu& pu : placed.of_thread) {
    if (usable.contains(pu)) continue;
    pu = *next;
    if (++next == left.end()) next = left.begin();
  }
  placed.cpus = CpuSet(placed.of_thread);
  placed.note = note_of(placed.lost, placed.of_thread.size(), placed.cpus);
  return placed;
}

PoolCpus place_shared_pool(const CpuSet& pool, const CpuSet& home, const CpuSet& usable,
                           std::size_t threads) {
  assert(!pool.empty() && !usable.empty());
  PoolCpus placed = {
      .of_thread = {}, .cpus = nearest_left(pool, home, usable), .lost = pool - usable, .note = {}};
  if (!placed.lost.empty()) placed.note = note_of(placed.lost, threads, placed.cpus);
  return placed;
}

}  // namespace zf
