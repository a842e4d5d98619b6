// Makes the kernels of a Lane. Only kernel_<isa>.cpp includes it, under the rules of adam_loop.hpp.
#pragma once

#include "engine/adam_loop.hpp"
#include "engine/kernel_set.hpp"
#include "engine/norm_loop.hpp"
#include "engine/outputs_loop.hpp"

namespace zf {
namespace {

/// Returns all kernels of a Lane. One entry serves every instruction set.
template <class Lane>
constexpr KernelSet lane_kernels() {
  return {.adam = kernel_of<Lane>,
          .outputs = outputs_of<Lane>,
          .roofline = roofline_loop<Lane>,
          .norm = norm_kernel_of<Lane>};
}

}  // namespace
}  // namespace zf
