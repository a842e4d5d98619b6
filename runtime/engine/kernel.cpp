// Takes the kernel of a variant from the table of instruction sets.
#include "engine/kernel.hpp"

#include "engine/instruction_sets.hpp"

namespace zf {

AdamKernel adam_kernel(Isa isa, const KernelVariant& variant) { return kernels_of(isa).adam(variant); }

OutputKernel output_kernel(Isa isa, const KernelVariant& variant) { return kernels_of(isa).outputs(variant); }

void roofline_pass(Isa isa, const AdamArrays& arrays) { kernels_of(isa).roofline(arrays); }

}  // namespace zf
