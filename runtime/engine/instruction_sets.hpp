// The table of instruction sets: a row each, with all that the engine knows of it. Private to the engine.
//
// A new instruction set needs its Lane in kernel_<isa>.cpp, that file and its compiler flags in
// runtime/CMakeLists.txt, a value of Isa with its name, its extern line in kernel_set.hpp, and a row in
// instruction_sets.cpp. A new kernel for all of them needs one entry in KernelSet and one in lane_kernels().
#pragma once

#include <span>

#include "engine/isa.hpp"
#include "engine/kernel_set.hpp"

namespace zf {

struct InstructionSet {
  Isa isa;
  bool (*is_supported)();    ///< by this CPU and its operating system
  const KernelSet* kernels;  ///< null if no CPU of this architecture has these instructions
};

/// Returns all rows, from narrow to wide, in the order of Isa.
std::span<const InstructionSet> instruction_sets();

/// Returns the row of an instruction set.
const InstructionSet& row_of(Isa isa);

/// Returns the kernels of an instruction set. Precondition: is_supported(isa).
const KernelSet& kernels_of(Isa isa);

}  // namespace zf
