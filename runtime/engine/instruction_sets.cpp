#include "engine/instruction_sets.hpp"

#include <cassert>
#include <cstddef>
#include <iterator>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace zf {
namespace {

bool has_scalar() { return true; }

#if defined(__aarch64__)
bool has_neon() { return true; }
constexpr const KernelSet* kNeon = &kNeonKernels;
#else
bool has_neon() { return false; }
constexpr const KernelSet* kNeon = nullptr;
#endif

#if defined(__x86_64__)
/// Asks cpuid for F16C, because clang's __builtin_cpu_supports does not know that name before version 18. The
/// builtin's answer to "avx2" tells whether the operating system saves the AVX state.
bool ask_f16c() {
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}

/// Asks once, as the builtin does: cpuid exits a virtual machine (7 us on 2 vCPUs of an AMD EPYC), and every
/// group's step asserts that its kernel is supported.
bool has_f16c() {
  static const bool answer = ask_f16c();
  return answer;
}

bool has_avx2() {
  return __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0 && has_f16c();
}

bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
         __builtin_cpu_supports("avx512dq") != 0 && __builtin_cpu_supports("avx512vl") != 0;
}

constexpr const KernelSet* kAvx2 = &kAvx2Kernels;
constexpr const KernelSet* kAvx512 = &kAvx512Kernels;
#else
bool has_avx2() { return false; }
bool has_avx512() { return false; }
constexpr const KernelSet* kAvx2 = nullptr;
constexpr const KernelSet* kAvx512 = nullptr;
#endif

constexpr InstructionSet kNarrowToWide[] = {
    {Isa::scalar, has_scalar, &kScalarKernels},
    {Isa::neon, has_neon, kNeon},
    {Isa::avx2, has_avx2, kAvx2},
    {Isa::avx512, has_avx512, kAvx512},
};

constexpr bool rows_stand_in_the_order_of_isa() {
  for (std::size_t i = 0; i < std::size(kNarrowToWide); ++i) {
    if (kNarrowToWide[i].isa != static_cast<Isa>(i)) return false;
  }
  return true;
}
static_assert(rows_stand_in_the_order_of_isa(), "row_of() takes the row by its number");

}  // namespace

std::span<const InstructionSet> instruction_sets() { return kNarrowToWide; }

const InstructionSet& row_of(Isa isa) {
  const auto number = static_cast<std::size_t>(isa);
  assert(number < std::size(kNarrowToWide));
  return kNarrowToWide[number];
}

const KernelSet& kernels_of(Isa isa) {
  const InstructionSet& row = row_of(isa);
  assert(row.is_supported());
  return *row.kernels;
}

}  // namespace zf
