// Computes a zf_scalars, checks one, and turns it into the factors of the kernel.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/step_types.hpp"
#include "zf_runtime.h"

namespace zf {

/// The size of the first version of the struct.
inline constexpr std::size_t kFirstScalarsBytes = 56;

/// Returns the scalars with this index of a program's array of structs of `size` bytes each. Allocates only
/// to refuse: throws AbiError(ZF_ERROR_USAGE) that names the index if a factor cannot be one, or
/// AbiError(ZF_ERROR_ABI).
zf_scalars read_scalars(const zf_scalars* array, std::size_t index, std::uint32_t size);

/// Implements zf_adam_scalars. Throws AbiError(ZF_ERROR_USAGE) that names a wrong setting, or
/// AbiError(ZF_ERROR_ABI). Pure.
zf_scalars scalars_of(const zf_adam& given, std::uint64_t step);

/// Returns the factors. Pure.
AdamScalars kernel_scalars(const zf_scalars& scalars);

}  // namespace zf
