// Tests that no row of the table lacks a kernel, or has one of another instruction set.
#include "engine/instruction_sets.hpp"

#include <gtest/gtest.h>

#include <set>

#include "kernel_fixture.hpp"

namespace zf {
namespace {

template <class Set>
concept MayLackItsLastKernel = requires(Set set) {
  Set{set.adam, set.outputs, set.roofline, set.norm, set.read, set.speculate};
};
static_assert(!MayLackItsLastKernel<KernelSet>, "a set without one of its kernels does not compile");

TEST(InstructionSets, EveryCpuThatHasOneHasItsKernels) {
  for (const InstructionSet& row : instruction_sets()) {
    EXPECT_EQ(&row_of(row.isa), &row);
    EXPECT_TRUE(row.kernels != nullptr || !row.is_supported()) << name_of(row.isa);
  }
}

TEST(InstructionSets, KernelsOfThisArchitectureAreBuilt) {
  EXPECT_NE(row_of(Isa::scalar).kernels, nullptr);
#if defined(__x86_64__)
  EXPECT_NE(row_of(Isa::avx2).kernels, nullptr);
  EXPECT_NE(row_of(Isa::avx512).kernels, nullptr);
#elif defined(__aarch64__)
  EXPECT_NE(row_of(Isa::neon).kernels, nullptr);
#endif
}

TEST(InstructionSets, EachHasAKernelOfItsOwnForEveryVariant) {
  for (KernelVariant variant : all_variants()) {
    for (variant.undo = false;; variant.undo = true) {
      std::set<AdamKernel> steps;
      std::set<OutputKernel> outputs;
      std::set<NormKernel> norms;
      std::set<OutputKernel> rooflines;
      for (const Isa isa : supported_isas()) {
        steps.insert(adam_kernel(isa, variant));
        outputs.insert(output_kernel(isa, variant));
        norms.insert(norm_kernel(isa, variant.grad));
        rooflines.insert(&kernels_of(isa).roofline);
      }
      EXPECT_EQ(steps.count(nullptr) + outputs.count(nullptr) + norms.count(nullptr), 0U) << text(variant);
      for (const std::size_t count : {steps.size(), outputs.size(), norms.size(), rooflines.size()}) {
        EXPECT_EQ(count, supported_isas().size()) << text(variant);
      }
      if (variant.undo) break;
    }
  }
}

TEST(InstructionSets, EachHasAKernelOfItsOwnForEveryCopyThatIsTheTruth) {
  for (KernelVariant variant : truth_variants()) {
    std::set<AdamKernel> steps;
    for (const Isa isa : supported_isas()) {
      for (variant.truth = true;; variant.truth = false) {
        steps.insert(adam_kernel(isa, variant));
        if (!variant.truth) break;
      }
    }
    EXPECT_EQ(steps.count(nullptr), 0U) << text(variant);
    EXPECT_EQ(steps.size(), 2 * supported_isas().size()) << text(variant);
  }
}

}  // namespace
}  // namespace zf
