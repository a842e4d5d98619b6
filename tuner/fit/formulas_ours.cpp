// Ours, and PyTorch's own optimizer in the training process.
#include <algorithm>

#include "base/step_types.hpp"
#include "fit/formulas.hpp"
#include "ipc/arena_layout.hpp"

namespace zf {
namespace {

ElementType element_type_of(ParameterType type) {
  switch (type) {
    case ParameterType::bf16:
      return ElementType::bf16;
    case ParameterType::fp16:
      return ElementType::f16;
    case ParameterType::fp32:
      break;
  }
  return ElementType::f32;
}

/// Returns the bytes of masters beside the parameter, in place or in a state_dict.
std::uint64_t master_bytes(const FitJob& job) { return job.is_half() ? state_bytes(job.state).master : 0; }

std::uint64_t moments_bytes(const FitJob& job) { return 2 * state_bytes(job.state).moment; }

}  // namespace

std::uint64_t cast_bytes(const FitJob& job) {
  const bool has_narrow_moments = has_bf16_moments(job.state);
  if (!job.is_half()) return has_narrow_moments ? 2 * sizeof(float) : 0;
  const std::uint64_t torchs = 2 + (has_narrow_moments ? 0 : 2 * 2);
  return has_narrow_moments ? std::max<std::uint64_t>(torchs, 2 * sizeof(float)) : torchs;
}

std::uint64_t share_of(std::uint64_t elements, const FitJob& job) {
  return (elements + job.world() - 1) / job.world();
}

std::uint64_t arena_bytes(const FitJob& job, std::uint64_t elements) {
  GroupShape group;
  group.elements = elements;
  group.grad_type = job.stage > 0 ? ElementType::f32 : element_type_of(job.type);
  group.copy_type = job.is_half() ? element_type_of(job.type) : ElementType::none;
  group.grad_buffers = job.mode == Mode::wait || job.mode == Mode::exact ? 1 : 2;
  group.format = job.state;
  return arena_layout({group}).bytes;
}

RankMemory memory_in_place(const FitJob& job) {
  const std::uint64_t type = bytes_of(job.type), params = job.model.params, trainable = job.model.trainable;
  const bool is_torchs = job.stepper == StepMethod::torch;
  const std::uint64_t masters = is_torchs ? 0 : trainable * master_bytes(job);
  const std::uint64_t moments = trainable * (is_torchs ? 2 * type : moments_bytes(job));
  const std::uint64_t buckets = job.world() > 1 ? trainable * type : 0;  // of DistributedDataParallel

  RankMemory memory;
  Instant model{FitPhase::start};
  model.add(FitItem::model, params * type);
  // DistributedDataParallel sends the parameters of rank 0 in two pieces of 250 MiB at a time. Its buckets of
  // gradients are touched in the first backward.
  memory.instants.push_back(
      Instant(model).add(FitItem::staging, std::min(buckets, std::uint64_t{500} << 20)));
  for (const FitPhase phase : {FitPhase::steady, FitPhase::checkpoint, FitPhase::resume}) {
    memory.instants.push_back(Instant{phase}
                                  .add(model)
                                  .add(FitItem::gradients, trainable * type + buckets)
                                  .add(FitItem::masters, masters)
                                  .add(FitItem::moments, moments));
  }
  Instant resume{FitPhase::resume};
  resume.add(model).add(FitItem::loaded, params * type + masters + moments);
  resume.add(FitItem::conversion, is_torchs ? 0 : trainable * cast_bytes(job));
  memory.instants.push_back(resume);
  return memory;
}

RankMemory memory_of_arena(const FitJob& job) {
  const std::uint64_t type = bytes_of(job.type), params = job.model.params, trainable = job.model.trainable;
  const std::uint64_t largest = job.model.largest_trained();
  const bool on_cpu = job.device == Device::cpu;
  const StateBytes each = state_bytes(job.state);
  const std::uint64_t whole = arena_bytes(job, trainable);
  const std::uint64_t moments = trainable * moments_bytes(job);
  const std::uint64_t copies = job.is_half() ? trainable * type : 0;
  const std::uint64_t masters = trainable * each.master;

  Instant kept{FitPhase::start};
  if (on_cpu) kept.add(FitItem::model, params * type);
  kept.add(FitItem::masters, masters)
      .add(FitItem::moments, moments)
      .add(FitItem::copies, copies)
      .add(FitItem::optimizer_gradients, whole - masters - moments - copies);
  Instant steady = kept;
  // Twice with DistributedDataParallel: as memory_in_place() says.
  if (on_cpu) steady.add(FitItem::gradients, (job.world() > 1 ? 2 : 1) * trainable * type);

  RankMemory memory;
  if (!on_cpu) memory.instants.push_back(Instant{FitPhase::start}.add(FitItem::model, params * type));
  memory.instants.push_back(kept);
  steady.phase = FitPhase::checkpoint;
  Instant saved = steady;
  if (has_split_masters(job.state))
    saved.add(FitItem::conversion, masters);  // their low bits, by state_dict()
  memory.instants.push_back(saved);
  if (!on_cpu)
    memory.saved_once_bytes = job.model.largest * type;  // torch.save() copies one parameter after the other
  // The first step compares each 16-bit parameter with its whole master: a mask, and two fp32 tensors.
  steady.phase = FitPhase::steady;
  if (job.is_half() && !has_split_masters(job.state)) steady.add(FitItem::staging, 9 * largest);
  memory.instants.push_back(steady);
  steady.phase = FitPhase::resume;
  memory.instants.push_back(steady);
  Instant resume = kept;
  resume.phase = FitPhase::resume;
  resume.add(FitItem::loaded, params * type + trainable * (moments_bytes(job) + master_bytes(job)));
  // A moment, or a whole master of a split one, on its way to the arena.
  resume.add(FitItem::staging, (has_split_masters(job.state) ? 4 : each.moment) * largest);
  memory.instants.push_back(resume);
  return memory;
}

}  // namespace zf
