// The kernels of one instruction set: kernel_<isa>.cpp defines them, and instruction_sets.cpp has them in its
// table. Private to the engine.
#pragma once

#include "engine/gradient_norm.hpp"
#include "engine/kernel.hpp"
#include "engine/reading.hpp"
#include "engine/rollback.hpp"
#include "engine/streaming.hpp"

namespace zf {

/// The kernels of one instruction set. These are references, so a set that lacks one does not compile.
struct KernelSet {
  AdamKernel (&adam)(const KernelVariant& variant);
  OutputKernel (&outputs)(const KernelVariant& variant);
  void (&roofline)(const AdamArrays& arrays);
  NormKernel (&norm)(ElementType type);
  ReadKernel (&read)(ElementType type);
  SpeculateKernel (&speculate)(const KernelVariant& variant);
  TakeBackKernel (&take_back)(const KernelVariant& variant);
  void (&stream)(const StreamedArray& array);
};

extern const KernelSet kScalarKernels;
#if defined(__x86_64__)
extern const KernelSet kAvx2Kernels;
extern const KernelSet kAvx512Kernels;
#elif defined(__aarch64__)
extern const KernelSet kNeonKernels;
#endif

}  // namespace zf
