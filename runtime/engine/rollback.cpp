#include "engine/rollback.hpp"

#include <cassert>

#include "engine/instruction_sets.hpp"

namespace zf {

RollbackPlace rollback_place(RollbackHeader& log, std::size_t n, std::size_t at) {
  assert(at == n || (at < n && at % kRollbackBlock == 0));
  auto* const bytes = reinterpret_cast<std::uint8_t*>(&log);
  const auto blocks_of = [](std::size_t elements) {
    return (elements + kRollbackBlock - 1) / kRollbackBlock;
  };
  std::uint8_t* const codes = bytes + sizeof log;
  RollbackPlace place = {.codes = codes + blocks_of(at) * kRollbackCodeBytes,
                         .whole = reinterpret_cast<float*>(codes + blocks_of(n) * kRollbackCodeBytes),
                         .end = reinterpret_cast<const float*>(bytes + rollback_bytes(n))};
  for (const std::uint8_t* code = codes; code != place.codes; ++code) {
    place.whole += (*code & 15U) == kRollbackWhole ? 1 : 0;
    place.whole += *code >> 4U == kRollbackWhole ? 1 : 0;
  }
  return place;
}

SpeculateKernel speculate_kernel(Isa isa, const KernelVariant& variant) {
  assert(can_be_taken_back(variant));
  return kernels_of(isa).speculate(variant);
}

TakeBackKernel take_back_kernel(Isa isa, const KernelVariant& variant) {
  assert(can_be_taken_back(variant));
  return kernels_of(isa).take_back(variant);
}

}  // namespace zf
