#include "engine/streaming.hpp"

#include "engine/instruction_sets.hpp"

namespace zf {

StreamKernel stream_kernel(Isa isa) { return kernels_of(isa).stream; }

}  // namespace zf
