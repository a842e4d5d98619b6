/// A program's list of tensors, checked and turned into steps of the engine.
#pragma once

#include <vector>

#include "local/step_list.hpp"
#include "zf_runtime.h"

namespace zf {

/// Throws AbiError(ZF_ERROR_USAGE) if a pointer of the arguments is missing, or an element has another size.
void check_step_lists(const zf_local_step_args& args);

/// Adds a step for each tensor, and the counters that are not null. Throws AbiError(ZF_ERROR_USAGE) if a
/// tensor cannot be stepped. The steps have spans of `ranges`, which must live as long as they do.
void fill_steps(const zf_local_step_args& args, Isa isa, std::vector<TensorStep>& steps,
                std::vector<float*>& counters, std::vector<ElementRange>& ranges);

}  // namespace zf
