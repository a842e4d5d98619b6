// A slice, its undo log, and the repair that the worker does. For the undo's tests.
#pragma once

#include "engine/undo.hpp"
#include "kernel_fixture.hpp"

namespace zf {

inline AdamKernel undo_kernel(Isa isa, KernelVariant variant) {
  variant.undo = true;
  return adam_kernel(isa, variant);
}

/// Does what stepper.cpp does with a slice over which another worker died.
inline void repair(UndoLog& log, std::uint64_t chunk_number, Isa isa, const KernelVariant& variant,
                   const AdamScalars& scalars, TestState& state) {
  const AdamArrays slice = state.arrays(variant, 0, state.p.size());
  const std::size_t at = roll_back(log, chunk_number, slice, variant.format);
  KernelVariant plain = variant;
  plain.stale = false;
  plain.copy = ElementType::none;
  AdamArrays rest = state.arrays(plain, at, slice.n - at);
  rest.undo = &log;
  begin_run(log, chunk_number, at);
  undo_kernel(isa, plain)(scalars, rest);
  output_kernel(isa, variant)(slice);
}

}  // namespace zf
