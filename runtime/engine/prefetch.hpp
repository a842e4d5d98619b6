// Whether the streaming loops ask for memory before they need it.
#pragma once

#include <cstddef>

namespace zf {

/// How many elements ahead of where they are the streaming loops ask for memory; 0: they leave it to the
/// hardware. A property of the CPU, measured (docs/benchmarks.md): an Intel core with its prefetchers alone
/// leaves bandwidth unused, one of AMD loses when it is helped. Never a change of result.
std::size_t prefetch_elements();

}  // namespace zf
