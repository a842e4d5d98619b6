#include "os/memory.hpp"

#include <numaif.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cerrno>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <limits>
#include <utility>
#include <vector>

#include "base/cpu_list.hpp"
#include "base/error.hpp"
#include "base/format.hpp"
#include "base/text.hpp"

namespace zf {
namespace {

// MPOL_LOCAL, MPOL_PREFERRED_MANY (Linux 5.15) and MPOL_WEIGHTED_INTERLEAVE (6.9) of <linux/mempolicy.h>.
// libnuma 2.0.16 may not have them.
constexpr int kLocal = 4;
constexpr int kPreferredMany = 5;
constexpr int kWeightedInterleave = 6;
// The flags that may be set in a mode: the nodes count among the allowed ones (relative), do not follow the
// cpuset (static), or are balanced.
constexpr int kRelativeNodes = 1 << 14;
constexpr int kModeFlags = 1 << 13 | kRelativeNodes | 1 << 15;

constexpr std::size_t kPagesPerCall = 16384;

struct NodeMask {
  explicit NodeMask(const NodeSet& nodes) {
    constexpr int bits = std::numeric_limits<unsigned long>::digits;
    if (nodes.empty()) return;
    words.resize(static_cast<std::size_t>(nodes.last().os_index / bits) + 1);
    for (const Node node : nodes)
      words[static_cast<std::size_t>(node.os_index / bits)] |= 1UL << (node.os_index % bits);
    // The kernel reads one bit fewer than this number says (get_nodes() in mm/mempolicy.c).
    max_node = static_cast<unsigned long>(nodes.last().os_index) + 2;
  }
  const unsigned long* data() const { return words.empty() ? nullptr : words.data(); }

  std::vector<unsigned long> words;
  unsigned long max_node = 0;
};

/// Calls set(mode, mask), a system call that returns -1 and sets errno, with the right mode. Kernels before
/// 5.15 take only one preferred node. They then get the first one; the others still follow in order of
/// distance.
template <class Set>
PolicyRefusal apply(const char* call, MemoryPolicy policy, const NodeSet& given, Set set) {
  const NodeSet nodes = policy == MemoryPolicy::none ? NodeSet() : given;
  const int mode = nodes.empty()                  ? MPOL_DEFAULT
                   : policy == MemoryPolicy::bind ? MPOL_BIND
                   : nodes.size() > 1             ? kPreferredMany
                                                  : MPOL_PREFERRED;
  if (set(mode, NodeMask(nodes)) == 0) return std::nullopt;
  if (mode == kPreferredMany && errno == EINVAL && set(MPOL_PREFERRED, NodeMask({nodes.first()})) == 0) {
    return std::nullopt;
  }
  const int error = errno;
  return format_text("{}({}, {}) was refused: {}", call, name_of(policy),
                     nodes.empty() ? "no node" : print_nodes(nodes), errno_text(error));
}

/// Returns the nodes that get_mempolicy() reports, and the mode; nothing if the call is refused.
std::optional<std::pair<int, NodeSet>> ask_policy(unsigned long flags) {
  constexpr unsigned long kWordBits = std::numeric_limits<unsigned long>::digits;
  constexpr unsigned long kMostNodes = 1024;  // Linux is built for no more (CONFIG_NODES_SHIFT)
  std::array<unsigned long, kMostNodes / kWordBits> words = {};
  int mode = MPOL_DEFAULT;
  // The kernel writes as many bits as it was built for, and wants room for them all. It reads one bit fewer.
  if (::get_mempolicy(&mode, words.data(), kMostNodes + 1, nullptr, static_cast<unsigned>(flags)) != 0)
    return std::nullopt;
  NodeSet nodes;
  for (unsigned long bit = 0; bit < kMostNodes; ++bit) {
    if ((words[bit / kWordBits] >> bit % kWordBits & 1) != 0) nodes.insert(Node{static_cast<int>(bit)});
  }
  return std::pair{mode, nodes};
}

/// Returns the nodes of a mask that counts among the allowed ones, round and round
/// (mpol_relative_nodemask()).
NodeSet nth_of(const NodeSet& positions, const NodeSet& allowed) {
  const std::vector<Node> ordered(allowed.begin(), allowed.end());
  NodeSet nodes;
  for (const Node position : positions) {
    if (!ordered.empty()) nodes.insert(ordered[static_cast<std::size_t>(position.os_index) % ordered.size()]);
  }
  return nodes;
}

std::optional<GivenPolicy> policy_of_mode(int mode) {
  switch (mode) {
    case MPOL_PREFERRED:
    case kPreferredMany:
      return GivenPolicy::preferred;
    case MPOL_BIND:
      return GivenPolicy::bind;
    case MPOL_INTERLEAVE:
    case kWeightedInterleave:
      return GivenPolicy::interleave;
    case kLocal:
      return GivenPolicy::local;
    default:
      return std::nullopt;
  }
}

}  // namespace

std::optional<ThreadPolicy> thread_memory_policy() {
  const auto found = ask_policy(0);
  if (!found) return std::nullopt;
  const auto [mode, nodes] = *found;
  const auto policy = policy_of_mode(mode & ~kModeFlags);
  if (!policy) return std::nullopt;
  const auto allowed = ask_policy(MPOL_F_MEMS_ALLOWED);
  if (!allowed) return std::nullopt;
  const NodeSet given =
      (mode & kRelativeNodes) != 0 ? nth_of(nodes, allowed->second) : nodes & allowed->second;
  if (given.empty()) return ThreadPolicy{};  // "preferred" without a node is how older kernels say "local"
  return ThreadPolicy{*policy, given};
}

PolicyRefusal set_thread_memory_policy(MemoryPolicy policy, const NodeSet& nodes) {
  return apply("set_mempolicy", policy, nodes, [](int mode, const NodeMask& mask) {
    return ::set_mempolicy(mode, mask.data(), mask.max_node);
  });
}

PolicyRefusal set_range_memory_policy(MemoryPolicy policy, const NodeSet& nodes, void* start,
                                      std::size_t bytes) {
  assert(reinterpret_cast<std::uintptr_t>(start) % static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE)) == 0);
  return apply("mbind", policy, nodes, [&](int mode, const NodeMask& mask) {
    return ::mbind(start, bytes, mode, mask.data(), mask.max_node, 0);
  });
}

PolicyRefusal ask_for_huge_pages(void* start, std::size_t bytes) {
  if (::madvise(start, bytes, MADV_HUGEPAGE) == 0) return std::nullopt;
  return format_text("madvise(MADV_HUGEPAGE) was refused: {}", errno_text(errno));
}

std::uint64_t huge_bytes_of(const void* start, std::size_t bytes) {
  const auto begin = reinterpret_cast<std::uintptr_t>(start);
  std::ifstream smaps("/proc/self/smaps");
  std::uint64_t huge_kib = 0;
  bool is_inside = false;
  for (std::string line; std::getline(smaps, line);) {
    std::uintptr_t from = 0;
    std::uintptr_t to = 0;
    std::uint64_t kib = 0;
    if (std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR " ", &from, &to) == 2) {
      is_inside = from >= begin && to <= begin + bytes;
    } else if (is_inside && (std::sscanf(line.c_str(), "ShmemPmdMapped: %" SCNu64, &kib) == 1 ||
                             std::sscanf(line.c_str(), "AnonHugePages: %" SCNu64, &kib) == 1)) {
      huge_kib += kib;
    }
  }
  return huge_kib * 1024;
}

std::string why_no_huge_pages() {
  std::string settings;
  std::getline(std::ifstream("/sys/kernel/mm/transparent_hugepage/shmem_enabled"), settings);
  // The setting that is in force stands in brackets: "always within_size advise [never] deny force".
  const std::size_t begin = settings.find('[') + 1;
  const std::size_t end = settings.find(']', begin);
  if (begin == 0 || end == std::string::npos) return "no huge pages: shmem_enabled cannot be read";
  return format_text("no huge pages: shmem_enabled is {}", settings.substr(begin, end - begin));
}

PolicyRefusal lock_memory(void* start, std::size_t bytes) {
  if (::mlock(start, bytes) == 0) return std::nullopt;
  return format_text("mlock of {} was refused: {}", print_bytes(bytes), errno_text(errno));
}

PageCounts count_pages(const void* start, std::size_t bytes, std::size_t every) {
  PageCounts counts;
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  // move_pages takes pages that it might move, so they are not const. Without target nodes it only reports.
  char* next = static_cast<char*>(const_cast<void*>(start));
  const char* const end = next + bytes;
  next -= reinterpret_cast<std::uintptr_t>(start) % page;

  std::vector<void*> pages;
  std::vector<int> status(kPagesPerCall);
  while (next < end) {
    pages.clear();
    for (; next < end && pages.size() < kPagesPerCall; next += every * page) pages.push_back(next);
    if (::move_pages(0, pages.size(), pages.data(), nullptr, status.data(), 0) < 0) {
      return {{}, 0, format_text("move_pages was refused: {}", errno_text(errno))};
    }
    for (std::size_t i = 0; i < pages.size(); ++i) {
      if (status[i] < 0) {
        ++counts.absent;  // -ENOENT: not touched; -EFAULT: not mapped, or the shared page of zeros
      } else {
        ++counts.by_node[Node{status[i]}];
      }
    }
  }
  return counts;
}

}  // namespace zf
