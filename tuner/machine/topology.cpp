#include "machine/topology.hpp"

namespace zf {

std::uint64_t last_level_cache_bytes(const Topology& topology) {
  std::uint64_t bytes = 0;
  for (const L3Group& group : topology.l3_groups) bytes += group.cache_bytes;
  return bytes;
}

}  // namespace zf
