// How far apart the arrays of a step begin, so that no two begin at the same place modulo a large power of
// two.
#pragma once

#include <cstddef>

namespace zf {

/// Array i of a step (p, g, m, v, outputs) begins i times this many bytes further than page or huge-page
/// alignment alone would put it. Otherwise arrays of a size that is a power of two have equal low address
/// bits, and element i of all arrays competes for the same cache ways. On an AMD EPYC (Zen 4) the step then
/// becomes three times slower. On an Intel Xeon (Cascade Lake) it costs nothing.
///
/// Measured (AMD EPYC, Zen 4, 1 thread, arrays of 256 MiB back to back, huge pages): 18 GB/s without,
/// 20 with 64 B, 34 with 1 KiB, 54 with 4 KiB, 55 with anything from 12 KiB to 6 MiB. The gap is a whole
/// number of pages, so that a page belongs to one slice. The number is odd, so that multiples of it do not
/// line up again soon.
inline constexpr std::size_t kStaggerBytes = std::size_t{17} * 4096;

}  // namespace zf
