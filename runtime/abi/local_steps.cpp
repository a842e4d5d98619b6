#include "abi/local_steps.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "abi/scalars.hpp"
#include "abi/status.hpp"
#include "abi/versioned.hpp"
#include "base/format.hpp"
#include "base/state_format.hpp"
#include "base/text.hpp"
#include "engine/dither.hpp"

// A release never changes these layouts. It only adds members at the end.
static_assert(sizeof(zf_tensor) == 64 && offsetof(zf_tensor, state) == 16 &&
              offsetof(zf_tensor, copy) == 32 && offsetof(zf_tensor, elements) == 40 &&
              offsetof(zf_tensor, scalars) == 56 && offsetof(zf_tensor, format) == 62);
static_assert(sizeof(zf_range) == 24);

namespace zf {
namespace {

// The sizes of the first version of each struct.
constexpr std::size_t kFirstTensorBytes = 64;
constexpr std::size_t kFirstRangeBytes = 24;

[[noreturn]] void refuse_tensor(std::size_t index, std::string_view what, std::string_view next = {}) {
  throw AbiError(ZF_ERROR_USAGE, format_text("tensor {}: {}", index, what), next);
}

void check_array(std::size_t index, const void* array, std::size_t element_bytes, std::string_view name) {
  if (array == nullptr) refuse_tensor(index, format_text("{} is NULL", name));
  if (reinterpret_cast<std::uintptr_t>(array) % element_bytes == 0) return;
  refuse_tensor(index, format_text("{} is at address {}; it must be at a multiple of {} bytes", name, array,
                                   element_bytes));
}

/// Throws AbiError(ZF_ERROR_USAGE) if there is no such state format, or not with this copy.
void check_format(const zf_tensor& tensor, std::size_t index) {
  if (tensor.format > ZF_STATE_BF16_SPLIT) {
    refuse_tensor(index,
                  format_text("format is {}; this library ({}) has 0 to {}", static_cast<int>(tensor.format),
                              zf_version(), static_cast<int>(ZF_STATE_BF16_SPLIT)));
  }
  const auto format = static_cast<StateFormat>(tensor.format);
  if (format == StateFormat::fp32) return;
  if (tensor.copy_type == ZF_F16) {
    refuse_tensor(index, format_text("copy_type is ZF_F16, and the state format is {}", name_of(format)),
                  "keep the state of fp16 parameters in fp32");
  }
  if (has_split_masters(format) && tensor.copy_type != ZF_BF16) {
    refuse_tensor(index, format_text("the state format is {}, and copy_type is not ZF_BF16", name_of(format)),
                  "split masters are for bf16 parameters: let copy be the parameter, and p its low halves");
  }
}

/// Throws AbiError(ZF_ERROR_USAGE) if the tensor cannot be stepped.
void check_tensor(const zf_tensor& tensor, std::size_t index, std::size_t scalar_count) {
  constexpr std::uint64_t most_elements = std::uint64_t{1} << 56;  // a size can count their bytes
  if (tensor.scalars >= scalar_count) {
    refuse_tensor(index, format_text("scalars is {}, and there are {}", tensor.scalars, scalar_count));
  }
  if (tensor.grad_type < ZF_F32 || tensor.grad_type > ZF_F16) {
    refuse_tensor(index, format_text("grad_type is {}; it must be ZF_F32, ZF_BF16 or ZF_F16",
                                     static_cast<int>(tensor.grad_type)));
  }
  if (tensor.copy_type != ZF_NONE && tensor.copy_type != ZF_BF16 && tensor.copy_type != ZF_F16) {
    refuse_tensor(index, format_text("copy_type is {}; it must be ZF_NONE, ZF_BF16 or ZF_F16",
                                     static_cast<int>(tensor.copy_type)));
  }
  check_format(tensor, index);
  if (tensor.elements == 0) return;
  if (tensor.elements > most_elements) refuse_tensor(index, format_text("elements is {}", tensor.elements));
  const StateBytes bytes = state_bytes(static_cast<StateFormat>(tensor.format));
  check_array(index, tensor.p, bytes.master, "p");
  check_array(index, tensor.g, tensor.grad_type == ZF_F32 ? sizeof(float) : sizeof(std::uint16_t), "g");
  check_array(index, tensor.state[0], bytes.moment, "state[0]");
  check_array(index, tensor.state[1], bytes.moment, "state[1]");
  if (tensor.copy_type != ZF_NONE) {
    check_array(index, tensor.copy, sizeof(std::uint16_t), "copy");
  } else if (tensor.copy != nullptr) {
    refuse_tensor(index, "copy is set, and copy_type is ZF_NONE", "set copy_type to ZF_BF16 or ZF_F16");
  }
}

/// Returns kernels, and looks one up only if its variant is another one than before.
class Kernels {
 public:
  explicit Kernels(Isa isa) : isa_(isa) {}
  AdamKernel of(const zf_tensor& tensor, const zf_scalars& scalars) {
    const std::array<int, 5> key = {tensor.grad_type, tensor.copy_type, scalars.mode, scalars.decay != 0.0F,
                                    tensor.format};
    if (kernel_ != nullptr && key == key_) return kernel_;
    KernelVariant variant;
    variant.grad = static_cast<ElementType>(tensor.grad_type);
    variant.format = static_cast<StateFormat>(tensor.format);
    if (!has_split_masters(variant.format)) variant.copy = static_cast<ElementType>(tensor.copy_type);
    variant.truth = variant.copy != ElementType::none;
    variant.mode = static_cast<AdamMode>(scalars.mode);
    variant.decay = scalars.decay != 0.0F;
    key_ = key;
    return kernel_ = adam_kernel(isa_, variant);
  }

 private:
  const Isa isa_;
  std::array<int, 5> key_ = {};
  AdamKernel kernel_ = nullptr;
};

/// Gives the steps their ranges. `ranges` must live as long as the steps.
void fill_ranges(const zf_local_step_args& args, std::vector<TensorStep>& steps,
                 std::vector<ElementRange>& ranges) {
  ranges.clear();
  ranges.reserve(args.range_count);  // so that spans stay valid
  std::uint64_t last_tensor = 0;
  for (std::size_t i = 0; i < args.range_count; ++i) {
    const zf_range range = element_of(args.ranges, i, args.range_size, "range");
    const auto refuse = [&](std::string_view why) {
      throw AbiError(ZF_ERROR_USAGE, format_text("range {}: tensor is {} and position {}: {}", i,
                                                 range.tensor, range.position, why));
    };
    if (range.tensor >= steps.size())
      refuse(format_text("there are {}", print_count(steps.size(), "tensor")));
    if (range.tensor < last_tensor) refuse("the ranges are not in the order of tensors");
    TensorStep& step = steps[range.tensor];
    if (range.position > step.elements)
      refuse(format_text("it has {}", print_count(step.elements, "element")));
    if (!step.ranges.empty() && range.position <= step.ranges.back().position)
      refuse("the ranges are not in the order of positions");
    ranges.push_back({range.position, range.first_element});
    const std::size_t before = step.ranges.size();
    step.ranges = {ranges.data() + (ranges.size() - 1 - before), before + 1};
    last_tensor = range.tensor;
  }
}

}  // namespace

void check_step_lists(const zf_local_step_args& args) {
  constexpr const char* next = "set it with ZF_LOCAL_STEP_ARGS_INIT";
  check_element_size(args.tensor_size, kFirstTensorBytes, "zf_local_step_args.tensor_size", next);
  check_element_size(args.scalars_size, kFirstScalarsBytes, "zf_local_step_args.scalars_size", next);
  if (args.range_count != 0)
    check_element_size(args.range_size, kFirstRangeBytes, "zf_local_step_args.range_size", next);
  if (args.ranges == nullptr && args.range_count != 0)
    throw AbiError(ZF_ERROR_USAGE, format_text("ranges is NULL, and range_count is {}", args.range_count));
  if (args.tensors == nullptr && args.tensor_count != 0)
    throw AbiError(ZF_ERROR_USAGE, format_text("tensors is NULL, and tensor_count is {}", args.tensor_count));
  if (args.scalars == nullptr && args.scalar_count != 0)
    throw AbiError(ZF_ERROR_USAGE, format_text("scalars is NULL, and scalar_count is {}", args.scalar_count));
}

void fill_steps(const zf_local_step_args& args, Isa isa, std::vector<TensorStep>& steps,
                std::vector<float*>& counters, std::vector<ElementRange>& ranges) {
  for (std::size_t i = 0; i < args.scalar_count; ++i) read_scalars(args.scalars, i, args.scalars_size);
  Kernels kernels(isa);
  for (std::size_t i = 0; i < args.tensor_count; ++i) {
    const zf_tensor tensor = element_of(args.tensors, i, args.tensor_size, "tensor");
    check_tensor(tensor, i, args.scalar_count);
    const zf_scalars scalars = element_of(args.scalars, tensor.scalars, args.scalars_size, "scalars");
    TensorStep& step = steps.emplace_back();
    step.elements = tensor.elements;
    step.first_element = tensor.first_element;
    if (tensor.elements == 0) continue;
    step.p = tensor.p;
    step.g = tensor.g;
    step.m = tensor.state[0];
    step.v = tensor.state[1];
    step.copy = tensor.copy;
    step.grad_type = static_cast<ElementType>(tensor.grad_type);
    step.format = static_cast<StateFormat>(tensor.format);
    step.dither = dither_of(scalars.seed, scalars.step);
    step.scalars = kernel_scalars(scalars);
    step.kernel = kernels.of(tensor, scalars);
  }
  fill_ranges(args, steps, ranges);
  if (args.counters == nullptr) return;
  for (std::size_t i = 0; i < args.tensor_count; ++i) {
    float* const counter = args.counters[i];
    if (counter == nullptr) continue;
    if (reinterpret_cast<std::uintptr_t>(counter) % sizeof(float) != 0)
      refuse_tensor(i, format_text("its counter is at address {}; it must be at a multiple of 4 bytes",
                                   static_cast<const void*>(counter)));
    counters.push_back(counter);
  }
}

}  // namespace zf
