// A copy that leaves the caches alone, as a GPU's DMA engine does.
#pragma once

#include <cstddef>

namespace zf {

/// Copies `bytes`, a multiple of 64, by non-temporal stores where the CPU has them: each byte of `from` is
/// read and each of `to` written once, and nothing is read to be overwritten. Precondition: both aligned to
/// 64, apart.
void stream_copy(void* to, const void* from, std::size_t bytes);

}  // namespace zf
