#include "local/placing.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "base/cpu_list.hpp"
#include "base/format.hpp"
#include "base/text.hpp"
#include "engine/slices.hpp"
#include "os/memory.hpp"

namespace zf {
namespace {

constexpr std::size_t kHugePageBytes = std::size_t{2} << 20;

void add(std::string& notes, const PolicyRefusal& refusal) {
  if (refusal) notes += (notes.empty() ? "" : "; ") + *refusal;
}

/// Writes to each page of a range, and changes nothing. Reading would map the page of zeros that all share.
void touch(const MemoryRange& range, std::size_t page_bytes) {
  // Adding a constant 0 would become a fence and a read: compilers know that it changes nothing. clang sees a
  // constant in a variable that is never written, unless it is volatile.
  static const volatile unsigned char zero = 0;
  const unsigned char nothing = zero;
  for (std::uintptr_t at = range.begin; at < range.end; at += page_bytes) {
    std::atomic_ref<unsigned char>(*reinterpret_cast<unsigned char*>(at))
        .fetch_add(nothing, std::memory_order_relaxed);
  }
}

}  // namespace

MemoryRange whole_units(const MemoryRange& range, std::size_t unit) {
  const std::uintptr_t mask = unit - 1;
  const std::uintptr_t end = range.end & ~mask;
  // Rounding up must not wrap around.
  const std::uintptr_t begin = range.begin > end ? end : (range.begin + mask) & ~mask;
  return begin < end ? MemoryRange{begin, end} : MemoryRange{};
}

std::string place_memory(Team& team, const MemoryWish& wish, void* start, std::size_t bytes) {
  const auto page_bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<std::uintptr_t>(start);
  const MemoryRange pages = whole_units({begin, begin + bytes}, page_bytes);
  if (pages.begin == pages.end) return "";
  std::string notes;
  if (!wish.mems.empty()) {
    add(notes, set_range_memory_policy(wish.policy, wish.mems, reinterpret_cast<void*>(pages.begin),
                                       pages.end - pages.begin));
  }
  if (const MemoryRange huge = whole_units(pages, kHugePageBytes); huge.begin != huge.end) {
    add(notes, ask_for_huge_pages(reinterpret_cast<void*>(huge.begin), huge.end - huge.begin));
  }
  // The same shares as a step of this memory has, in fp32 elements.
  const std::vector<Slice> shares = slices_of((pages.end - pages.begin) / sizeof(float), team.size());
  team.run([&](std::size_t member, std::size_t members) {
    for (std::size_t i = member; i < shares.size(); i += members) {
      touch({pages.begin + shares[i].begin * sizeof(float), pages.begin + shares[i].end * sizeof(float)},
            page_bytes);
    }
  });
  return notes;
}

std::string idle_pool_note(const RankBinding& binding, const CpuSet& mask) {
  if (binding.shared) return "";
  const CpuSet idle = binding.optimizer.cpus - mask;
  if (idle.empty()) return "";
  // The note has room for 200 characters, and the command comes last.
  constexpr std::size_t longest_list = 60;
  std::string list = print_cpus(idle);
  if (list.size() > longest_list) list = print_count(idle.size(), "CPU");
  return format_text(
      "{} of the plan's optimizer {} idle: the step runs in this process; make a plan for that: zf-tune tune "
      "--framework torch --mode wait",
      list, idle.size() == 1 ? "stays" : "stay");
}

}  // namespace zf
