// Checks a zf_scalars, and turns it into the factors of the kernel.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/step_types.hpp"
#include "zf_runtime.h"

namespace zf {

/// The size of the first version of the struct.
inline constexpr std::size_t kFirstScalarsBytes = 40;

/// Returns the scalars with this index of a program's array of structs of `size` bytes each. Allocates only
/// to refuse: throws AbiError(ZF_ERROR_USAGE) that names the index if a factor cannot be one, or
/// AbiError(ZF_ERROR_ABI).
zf_scalars read_scalars(const zf_scalars* array, std::size_t index, std::uint32_t size);

/// Returns the factors. Pure.
AdamScalars kernel_scalars(const zf_scalars& scalars);

}  // namespace zf
