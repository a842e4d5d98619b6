#include "worker/wire.hpp"

namespace zf {
namespace {

CopyType copy_type(ElementType type) {
  switch (type) {
    case ElementType::bf16:
      return CopyType::bf16;
    case ElementType::f16:
      return CopyType::f16;
    default:
      return CopyType::none;
  }
}

}  // namespace

GradType grad_type_of(const GroupBlock& group) {
  switch (group.grad_type) {
    case ElementType::bf16:
      return GradType::bf16;
    case ElementType::f16:
      return GradType::f16;
    default:
      return GradType::f32;
  }
}

ArrayPlace part_of(const ArrayPlace& array, const GroupBlock& group, std::uint64_t begin,
                   std::uint64_t elements) {
  if (group.elements == 0) return {array.offset, 0};
  const std::uint64_t each = array.bytes / group.elements;
  return {array.offset + begin * each, elements * each};
}

AdamSettings settings_of(const GroupRequest& request) {
  AdamSettings settings;
  settings.lr = request.lr;
  settings.beta1 = request.beta1;
  settings.beta2 = request.beta2;
  settings.eps = request.eps;
  settings.weight_decay = request.weight_decay;
  settings.mode = request.adamw != 0 ? AdamMode::adamw : AdamMode::adam;
  settings.bias_correction = request.bias_correction != 0;
  settings.grad_scale = request.grad_scale;
  return settings;
}

AdamProgress progress_of(const GroupProgress& wire) {
  AdamProgress progress;
  progress.step = wire.step;
  progress.beta1 = wire.beta1;
  progress.beta2 = wire.beta2;
  progress.beta1_power = wire.beta1_power;
  progress.beta2_power = wire.beta2_power;
  return progress;
}

GroupProgress wire_progress(const AdamProgress& progress) {
  return {.step = progress.step,
          .beta1 = progress.beta1,
          .beta2 = progress.beta2,
          .beta1_power = progress.beta1_power,
          .beta2_power = progress.beta2_power};
}

KernelVariant variant_of(const GroupBlock& group, const AdamSettings& settings) {
  KernelVariant variant;
  variant.grad = grad_type_of(group);
  variant.copy = copy_type(group.copy_type);
  variant.stale = group.has_stale();
  variant.mode = settings.mode;
  variant.decay = settings.weight_decay != 0.0F;
  return variant;
}

}  // namespace zf
