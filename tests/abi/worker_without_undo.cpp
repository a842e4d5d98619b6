// zf-optimizer without the roll-back of torn vectors. abi_kill_test must see the difference.
//
// It is linked with --wrap: the worker's calls of zf::roll_back come here, and the real function has another
// name.
#include "engine/kernel.hpp"
#include "engine/undo.hpp"

namespace zf {

std::size_t real_roll_back(const UndoLog& log, std::uint64_t chunk_number, const AdamArrays& slice,
                           StateFormat format) asm("__real_" ZF_ROLL_BACK);
std::size_t roll_nothing_back(const UndoLog& log, std::uint64_t chunk_number, const AdamArrays& slice,
                              StateFormat format) asm("__wrap_" ZF_ROLL_BACK);

/// Returns the element of a log in which no vector was begun, so that nothing is restored.
std::size_t roll_nothing_back(const UndoLog& log, std::uint64_t chunk_number, const AdamArrays& slice,
                              StateFormat format) {
  UndoLog calm = log;
  for (UndoRun& run : calm.runs) run.mark &= ~kUndoBegun;
  return real_roll_back(calm, chunk_number, slice, format);
}

}  // namespace zf
