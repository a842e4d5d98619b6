// Makes the kernels of a Lane. Only kernel_<isa>.cpp includes it, under the rules of adam_loop.hpp.
#pragma once

#include "engine/adam_kernels.hpp"
#include "engine/kernel_set.hpp"
#include "engine/norm_loop.hpp"
#include "engine/outputs_loop.hpp"
#include "engine/read_loop.hpp"
#include "engine/rollback_loop.hpp"
#include "engine/streaming_loop.hpp"

namespace zf {
namespace {

/// Returns all kernels of a Lane. One entry serves every instruction set.
template <class Lane>
constexpr KernelSet lane_kernels() {
  return {.adam = kernel_of<Lane>,
          .outputs = outputs_of<Lane>,
          .roofline = roofline_loop<Lane>,
          .norm = norm_kernel_of<Lane>,
          .read = read_kernel_of<Lane>,
          .speculate = speculate_of<Lane>,
          .take_back = take_back_of<Lane>,
          .stream = stream_array<Lane>};
}

}  // namespace
}  // namespace zf
