#include "engine/isa.hpp"

#include <algorithm>
#include <cstdlib>
#include <iterator>

#include "base/error.hpp"
#include "base/format.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace zf {
namespace {

constexpr Isa kNarrowToWide[] = {Isa::scalar, Isa::neon, Isa::avx2, Isa::avx512};

bool has_neon() {
#if defined(__aarch64__)
  return true;
#else
  return false;
#endif
}

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
#else
bool has_avx2() { return false; }
bool has_avx512() { return false; }
#endif

}  // namespace

bool is_supported(Isa isa) {
  switch (isa) {
    case Isa::scalar:
      return true;
    case Isa::neon:
      return has_neon();
    case Isa::avx2:
      return has_avx2();
    case Isa::avx512:
      return has_avx512();
  }
  return false;
}

Isa chosen_isa() {
  if (const char* wish = std::getenv("ZF_ISA"); wish != nullptr && *wish != '\0') {
    const auto isa = value_named<Isa>(wish);
    if (!isa) {
      throw Error(Exit::usage, format_text("ZF_ISA=\"{}\" is not an instruction set", wish),
                  "use " + all_names<Isa>(", ", " or ") + ", or unset it");
    }
    if (!is_supported(*isa)) {
      throw Error(Exit::usage, format_text("ZF_ISA={}: this CPU does not have these instructions", wish),
                  "unset it to use the widest that this CPU has");
    }
    return *isa;
  }
  return *std::find_if(std::rbegin(kNarrowToWide), std::rend(kNarrowToWide), is_supported);
}

std::size_t preferred_prefetch_distance() {
#if defined(__x86_64__)
  constexpr std::size_t kDistance =
      256;  // 1 KiB of fp32; every distance from 512 B to 3 KiB measured the same
  return __builtin_cpu_is("intel") != 0 ? kDistance : 0;
#else
  return 0;
#endif
}

}  // namespace zf
