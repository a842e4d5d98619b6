// Chooses the vector instructions of the kernels, once at run time. ZF_ISA overrides the choice. Results
// never depend on it.
#pragma once

#include <cstddef>

#include "base/enum_names.hpp"

namespace zf {

enum class Isa { scalar, neon, avx2, avx512 };

/// The names that ZF_ISA uses.
template <>
inline constexpr auto kEnumNames<Isa> = std::to_array<EnumName<Isa>>(
    {{Isa::scalar, "scalar"}, {Isa::neon, "neon"}, {Isa::avx2, "avx2"}, {Isa::avx512, "avx512"}});

/// Returns true if this CPU and its operating system can run the instruction set.
bool is_supported(Isa isa);

/// Returns ZF_ISA (scalar, neon, avx2 or avx512) if set, else the widest supported instruction set. Throws
/// Error(usage) if ZF_ISA is not one of these, or if this CPU lacks it.
Isa chosen_isa();

/// Returns how many elements ahead the streaming loops should prefetch on this CPU; 0 leaves prefetching to
/// the hardware. The vendor decides, as measured on one CPU of each (docs/arithmetic.md): the Intel Xeon
/// leaves bandwidth unused with its own prefetchers alone, and the AMD EPYC loses when software helps. The
/// result of a step never depends on it.
std::size_t preferred_prefetch_distance();

}  // namespace zf
