// DeepSpeed 0.19.8: runtime/zero/stage_1_and_2.py and stage3.py, runtime/zenflow, runtime/superoffload.
#include <bit>

#include "fit/formulas.hpp"

namespace zf {
namespace {

/// Returns by how much torch rounds up one block of pinned memory: to a power of two.
std::uint64_t rounding_of(std::uint64_t bytes, const FitJob& job) {
  return job.pinned && bytes > 0 ? std::bit_ceil(bytes) - bytes : 0;
}

/// The bytes of what DeepSpeed keeps for a rank's partition, besides moments.
struct Partition {
  std::uint64_t elements;
  std::uint64_t masters;
  std::uint64_t gradients;
  std::uint64_t copies;  ///< stages 1 and 2: the buffer of the parameters; stage 3: that of gradients
  std::uint64_t rounding;
};

Partition partition_of(const FitJob& job) {
  const std::uint64_t elements = share_of(job.model.trainable, job);
  const bool has_fp32_copies = job.stage == 3 && job.has(FitExtra::fp32_accumulation);
  Partition partition{elements, 4 * elements, 4 * elements,
                      (has_fp32_copies ? 4 : bytes_of(job.type)) * elements, 0};
  // Stage 3 pins each sub-group's gradients alone, and its masters not at all.
  if (job.stage == 3) {
    const std::uint64_t whole_groups = elements / job.sub_group;
    partition.rounding = whole_groups * rounding_of(4 * job.sub_group, job) +
                         rounding_of(4 * (elements % job.sub_group), job) +
                         rounding_of(partition.copies, job);
  } else {
    partition.rounding = rounding_of(partition.masters, job) + rounding_of(partition.gradients, job) +
                         rounding_of(partition.copies, job);
  }
  return partition;
}

/// Returns what a rank keeps at the end of the start. The moments come with the first step, but for ours.
Instant kept_at(FitPhase phase, const FitJob& job, const Partition& partition) {
  Instant kept{phase};
  if (job.stepper == StepMethod::native) {
    const std::uint64_t moments = 2 * state_bytes(job.state).moment * partition.elements;
    const std::uint64_t copies = job.is_half() ? bytes_of(job.type) * partition.elements : 0;
    const std::uint64_t whole = arena_bytes(job, partition.elements);
    return kept.add(FitItem::masters, partition.masters)
        .add(FitItem::moments, moments)
        .add(FitItem::copies, copies)
        .add(FitItem::optimizer_gradients, whole - partition.masters - moments - copies);
  }
  return kept.add(FitItem::masters, partition.masters)
      .add(FitItem::optimizer_gradients, partition.gradients)
      .add(FitItem::pinning, partition.rounding);
}

/// Returns the bytes of a rank's frozen parameters.
std::uint64_t frozen_of_rank(const FitJob& job) {
  const std::uint64_t frozen = job.model.params - job.model.trainable;
  return bytes_of(job.type) * (job.stage == 3 ? share_of(frozen, job) : frozen);
}

/// Returns the bytes of a rank's copy of frozen parameters for a checkpoint of stages 2 and 3, which each
/// rank makes (_get_zero_frozen_param_attributes() of runtime/engine.py): none where they are on the CPU
/// already.
std::uint64_t frozen_to_save(const FitJob& job) {
  if (job.device == Device::cpu || job.stage < 2 || job.has(FitExtra::offload_param)) return 0;
  return frozen_of_rank(job);
}

bool is_ours(const FitJob& job) { return job.stepper == StepMethod::native; }

std::uint64_t moments_of_deepspeed(const FitJob& job, const Partition& partition) {
  return is_ours(job) ? 0 : 8 * partition.elements;
}

/// Returns the bytes of the copies that a CPU makes of a bucket of gradients while it is reduced in stages 1
/// and 2.
std::uint64_t copies_to_reduce(const FitJob& job, std::uint64_t bucket) {
  const std::uint64_t flat = bytes_of(job.type) * bucket;
  // Sums in fp32 take the bucket apart, parameter by parameter, so that it is flattened again: stage 1 in
  // fp32 and then in the model's type, stage 2 in the model's type and then one gradient in fp32
  // (_add_to_grad_partition_buffer()).
  if (job.has(FitExtra::fp32_accumulation))
    return flat + 4 * (job.stage == 1 ? bucket : job.model.largest_trained());
  return job.world() > 1 ? flat : 0;
}

/// Returns the bytes that the moments take as fp32 tensors when a checkpoint is written: none if they are
/// such tensors already.
std::uint64_t moments_to_save(const FitJob& job, const Partition& partition) {
  return is_ours(job) && has_bf16_moments(job.state) ? 8 * partition.elements : 0;
}

}  // namespace

RankMemory memory_of_zero_1_2(const FitJob& job) {
  const std::uint64_t type = bytes_of(job.type);
  const Partition partition = partition_of(job);
  const bool on_cpu = job.device == Device::cpu;
  const std::uint64_t model = job.model.params * type, flat = job.model.trainable * type;
  const std::uint64_t largest = job.model.largest_trained() * type;
  const bool adds_in_fp32 = job.has(FitExtra::fp32_accumulation);

  RankMemory memory;
  memory.instants.push_back(Instant{FitPhase::start}.add(FitItem::model, model));
  // The parameters come back from the GPU, and are flattened.
  if (job.has(FitExtra::host_flatten))
    memory.instants.push_back(
        Instant{FitPhase::start}.add(FitItem::model, flat).add(FitItem::conversion, flat));
  // On the CPU, the flat buffer is made beside the model.
  if (on_cpu)
    memory.instants.push_back(
        Instant{FitPhase::start}.add(FitItem::model, model).add(FitItem::conversion, flat));

  Instant kept{FitPhase::start};
  if (on_cpu) kept.add(FitItem::model, model);
  kept.add(kept_at(FitPhase::start, job, partition));
  const bool has_own_copy = !is_ours(job) || !job.is_half();
  if (has_own_copy) kept.add(FitItem::copies, partition.copies);
  kept.add(FitItem::staging, on_cpu ? 2 * largest : largest);  // one gradient, here and on the device
  Instant start = kept;
  if (is_ours(job)) {  // masters and the copy are DeepSpeed's first
    start.add(FitItem::conversion, partition.masters + (has_own_copy ? 0 : partition.copies));
  } else if (job.pinned) {
    start.add(FitItem::conversion, partition.gradients);  // before they are pinned
  }
  memory.instants.push_back(start);

  Instant steady = kept;
  steady.phase = FitPhase::checkpoint;
  // The sum of what backward gave before (async_accumulate_grad_in_cpu_via_gpu()), which then stays. In fp32
  // it is where backward computes, until the step.
  const std::uint64_t sums = job.has(FitExtra::accumulation) && !adds_in_fp32 ? type * partition.elements : 0;
  steady.add(FitItem::moments, moments_of_deepspeed(job, partition)).add(FitItem::gradients, sums);
  memory.instants.push_back(
      Instant(steady).add(FitItem::conversion, moments_to_save(job, partition) + frozen_to_save(job)));
  if (on_cpu) {
    // The bucket of gradients and their sums; then copies to reduce it, or one gradient in fp64 for its norm.
    const std::uint64_t bucket = std::min(job.bucket, job.model.trainable);
    const std::uint64_t norm = 8 * job.model.largest_trained();
    steady.add(FitItem::gradients, (adds_in_fp32 && job.stage == 1 ? 4 : type) * bucket)
        .add(FitItem::gradients, adds_in_fp32 ? 4 * partition.elements : 0)
        .add(FitItem::staging, std::max(copies_to_reduce(job, bucket), norm));
  }
  if (!on_cpu) memory.saved_once_bytes = flat;  // torch.save() copies their one storage
  for (const FitPhase phase : {FitPhase::steady, FitPhase::resume}) {
    steady.phase = phase;
    memory.instants.push_back(steady);
  }
  Instant resume = kept;
  resume.phase = FitPhase::resume;
  // Stage 2 has the frozen parameters in the file again (as the same bytes if they were saved from the CPU),
  // and they stay while the partition is loaded.
  memory.instants.push_back(Instant(resume).add(FitItem::loaded, model + frozen_to_save(job)));
  memory.instants.push_back(
      resume.add(FitItem::loaded, 12 * partition.elements + (job.stage == 2 ? frozen_of_rank(job) : 0)));
  if (job.pinned)
    memory.pinned_bytes =
        partition.masters + partition.gradients + partition.copies + sums + partition.rounding;
  return memory;
}

RankMemory memory_of_zero_3(const FitJob& job) {
  const std::uint64_t type = bytes_of(job.type);
  const Partition partition = partition_of(job);
  const bool on_cpu = job.device == Device::cpu;
  const std::uint64_t model = job.model.params * type;
  const std::uint64_t shard = share_of(job.model.params, job) * type;
  const std::uint64_t sub_group = 4 * std::min(job.sub_group, partition.elements);

  RankMemory memory;
  if (job.load == Load::whole) memory.instants.push_back(Instant{FitPhase::start}.add(FitItem::model, model));
  memory.instants.push_back(Instant{FitPhase::start}.add(FitItem::model, shard));

  Instant shards{FitPhase::start};
  if (on_cpu) shards.add(FitItem::model, shard);
  // offload_param: the trained ones move to one buffer, which is pinned always
  // (_create_param_groups_fp16_flat_cpu_memory()). Pinned ones that were moved stay in torch's cache.
  const bool offloads = job.has(FitExtra::offload_param);
  const std::uint64_t trained = type * partition.elements;
  const std::uint64_t flat = offloads ? std::bit_ceil(trained) : 0;
  if (offloads) {
    memory.instants.push_back(
        Instant{FitPhase::start}.add(FitItem::model, shard).add(FitItem::conversion, trained));
    shards.add(FitItem::model, trained + frozen_of_rank(job)).add(FitItem::pinning, flat - trained);
    if (job.pinned) shards.add(FitItem::pinning, trained);
  }
  // initialize_optimizer_states() has gradients of the largest sub-group for a moment, beside those that
  // stay.
  Instant first = shards;
  first.add(FitItem::masters, partition.masters)
      .add(FitItem::optimizer_gradients, partition.gradients)
      .add(FitItem::conversion, sub_group + (job.pinned ? sub_group : 0));
  memory.instants.push_back(first);

  const Instant own = kept_at(FitPhase::start, job, partition);
  if (is_ours(job))
    memory.instants.push_back(Instant(shards).add(own).add(FitItem::conversion, partition.masters));
  Instant kept = shards;
  kept.add(own).add(FitItem::second_buffers, partition.copies);
  // On the CPU, two gathered parameters are there, too.
  memory.instants.push_back(Instant(kept).add(FitItem::staging, on_cpu ? 2 * job.model.largest * type : 0));
  if (job.pinned && !is_ours(job))
    memory.instants.push_back(Instant(kept).add(FitItem::conversion, partition.copies));

  Instant steady = kept;
  steady.phase = FitPhase::checkpoint;
  steady.add(FitItem::moments, moments_of_deepspeed(job, partition));
  const std::uint64_t bucket = std::min(job.bucket, job.model.trainable);
  if (on_cpu) steady.add(FitItem::gradients, bucket * type);
  memory.instants.push_back(
      Instant(steady).add(FitItem::conversion, moments_to_save(job, partition) + frozen_to_save(job)));
  // Gradients before and after they are reduced.
  if (on_cpu)
    steady.add(FitItem::staging, bucket * type + bucket * (job.has(FitExtra::fp32_accumulation) ? 4 : type));
  for (const FitPhase phase : {FitPhase::steady, FitPhase::resume}) {
    steady.phase = phase;
    memory.instants.push_back(steady);
  }
  Instant resume = kept;
  resume.phase = FitPhase::resume;
  memory.instants.push_back(resume.add(FitItem::loaded, 12 * partition.elements + frozen_of_rank(job)));
  memory.pinned_bytes = flat;
  if (job.pinned) {
    memory.pinned_bytes += partition.gradients + partition.copies + partition.rounding;
    if (offloads) memory.pinned_bytes += shard;
  }
  return memory;
}

RankMemory memory_of_zenflow(const FitJob& job) {
  // The masters, two buffers of gradients and a snapshot are shared with the optimizer process, which has a
  // set of moments for each buffer.
  FitJob plain = job;
  plain.stepper = StepMethod::deepspeed_offload;
  plain.mode = Mode::wait;
  const std::uint64_t elements = share_of(job.model.trainable, job);
  RankMemory memory = job.stage == 3 ? memory_of_zero_3(plain) : memory_of_zero_1_2(plain);
  const std::uint64_t rounding = rounding_of(bytes_of(job.type) * elements, job);
  for (Instant& instant : memory.instants) {
    if (instant.phase == FitPhase::start || instant.phase == FitPhase::resume) continue;
    // share_memory_() moves masters and gradients out of pinned memory; the 16-bit copy stays.
    std::erase_if(instant.parts, [](const auto& part) { return part.first == FitItem::pinning; });
    instant.add(FitItem::pinning, rounding);
    instant.add(FitItem::second_buffers, 4 * elements + 4 * elements).add(FitItem::moments, 8 * elements);
  }
  Instant steady;
  for (const Instant& instant : memory.instants) {
    if (instant.phase == FitPhase::steady) steady = instant;
  }
  steady.phase = FitPhase::resume;
  memory.instants.push_back(steady);
  memory.shared_memory_bytes = 16 * elements;
  if (job.pinned) memory.pinned_bytes = bytes_of(job.type) * elements + rounding;
  return memory;
}

RankMemory memory_of_superoffload(const FitJob& job) {
  FitJob plain = job;
  plain.stepper = StepMethod::deepspeed_offload;
  plain.mode = Mode::wait;
  RankMemory memory = memory_of_zero_3(plain);
  const std::uint64_t elements = share_of(job.model.trainable, job);
  const std::uint64_t scratch = 4 * std::min(job.sub_group, elements);  // gradients in its process
  for (Instant& instant : memory.instants) {
    if (instant.phase != FitPhase::start) instant.add(FitItem::staging, scratch);
  }
  memory.shared_memory_bytes = 8 * elements;
  return memory;
}

}  // namespace zf
