// Whether the streaming loops ask for memory before they need it.
#pragma once

#include <cstddef>

namespace zf {

/// How many elements ahead of where they are the streaming loops should ask for memory on this CPU; 0: they
/// leave it to the hardware. By the vendor, from one CPU of each (docs/benchmarks.md): the Intel Xeon leaves
/// bandwidth unused with its own prefetchers alone, the AMD EPYC loses when it is helped. Never a change of
/// result.
std::size_t prefetch_elements();

}  // namespace zf
