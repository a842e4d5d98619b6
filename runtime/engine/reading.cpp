#include "engine/reading.hpp"

#include "engine/instruction_sets.hpp"

namespace zf {

ReadKernel read_kernel(Isa isa, ElementType type) { return kernels_of(isa).read(type); }

std::uint64_t digest_of(std::uint64_t shares, std::uint64_t bytes) {
  return shares + bytes * 0xd6e8feb86659fd93U;  // odd, so that every number of bytes counts
}

}  // namespace zf
