// A slice, its undo log, and the repair that the worker does. For the undo's tests.
#pragma once

#include "engine/undo.hpp"
#include "kernel_fixture.hpp"

namespace zf {

inline AdamKernel undo_kernel(Isa isa, KernelVariant variant) {
  variant.undo = true;
  return adam_kernel(isa, variant);
}

/// What stepper.cpp does with a slice that another worker died over.
inline void repair(UndoLog& log, std::uint64_t entry, Isa isa, const KernelVariant& variant,
                   const AdamScalars& scalars, TestState& state) {
  const AdamArrays slice = state.arrays(variant, 0, state.p.size());
  const std::size_t at = roll_back(log, entry, slice);
  KernelVariant plain = variant;
  plain.stale = false;
  plain.copy = ElementType::none;
  AdamArrays rest = state.arrays(plain, at, slice.n - at);
  rest.undo = &log;
  begin_run(log, entry, at);
  undo_kernel(isa, plain)(scalars, rest);
  output_kernel(isa, variant)(slice);
}

}  // namespace zf
