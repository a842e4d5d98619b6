// Which vector instructions the kernels use: chosen once at run time, overridable, never a change of result.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace zf {

enum class Isa { scalar, neon, avx2, avx512 };

std::string_view name_of(Isa isa);
std::optional<Isa> isa_named(std::string_view name);

/// True when this CPU and its kernel can run it.
bool is_supported(Isa isa);

/// ZF_ISA=scalar|neon|avx2|avx512 if set, else the widest supported one. Throws Error(usage) when ZF_ISA
/// names none or one that this CPU lacks.
Isa chosen_isa();

/// Returns how many elements ahead the streaming loops should prefetch on this CPU; 0 leaves prefetching to
/// the hardware. Decided by the vendor, from one CPU of each (docs/benchmarks.md): the Intel Xeon leaves
/// bandwidth unused with its own prefetchers alone, and the AMD EPYC loses when software helps. The result of
/// a step never depends on it.
std::size_t preferred_prefetch_distance();

}  // namespace zf
