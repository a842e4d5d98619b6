// Chooses the vector instructions of the kernels, once at run time. ZF_ISA overrides the choice. Results
// never depend on it.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace zf {

enum class Isa { scalar, neon, avx2, avx512 };

/// Returns the name that ZF_ISA uses, and the instruction set of such a name.
std::string_view name_of(Isa isa);
std::optional<Isa> isa_named(std::string_view name);

/// Returns true if this CPU and its operating system can run the instruction set.
bool is_supported(Isa isa);

/// Returns ZF_ISA (scalar, neon, avx2 or avx512) if set, else the widest supported instruction set. Throws
/// Error(usage) if ZF_ISA is not one of these, or if this CPU lacks it.
Isa chosen_isa();

/// Returns how many elements ahead the streaming loops should prefetch on this CPU; 0 leaves prefetching to
/// the hardware. The vendor decides, as measured on one CPU of each (docs/benchmarks.md): the Intel Xeon
/// leaves bandwidth unused with its own prefetchers alone, and the AMD EPYC loses when software helps. The
/// result of a step never depends on it.
std::size_t preferred_prefetch_distance();

}  // namespace zf
