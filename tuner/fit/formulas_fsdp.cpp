#include "fit/formulas.hpp"

namespace zf {

RankMemory memory_of_fsdp2(const FitJob& job) {
  const std::uint64_t type = bytes_of(job.type), params = job.model.params;
  const std::uint64_t shard = share_of(params, job), stepped = share_of(job.model.trainable, job);
  const std::uint64_t layer = job.model.layer * type;
  const bool is_ours = job.stepper == StepMethod::fsdp2_in_place;
  const StateBytes each = state_bytes(job.state);
  const std::uint64_t moments = stepped * (is_ours ? 2 * each.moment : 2 * type);
  const std::uint64_t masters = is_ours && job.is_half() ? stepped * each.master : 0;

  RankMemory memory;
  // fully_shard() cuts one layer after the other: the whole model, and the shard of one.
  Instant whole{FitPhase::start};
  if (job.load == Load::whole) whole.add(FitItem::model, params * type);
  whole.add(FitItem::conversion, share_of(job.model.layer, job) * type);
  memory.instants.push_back(whole);
  Instant sharded{FitPhase::start};
  sharded.add(FitItem::model, shard * type);
  memory.instants.push_back(sharded);

  Instant kept{FitPhase::checkpoint};
  kept.add(sharded)
      .add(FitItem::gradients, stepped * type)
      .add(FitItem::masters, masters)
      .add(FitItem::moments, moments);
  memory.instants.push_back(kept);
  for (const FitPhase phase : {FitPhase::steady, FitPhase::resume}) {
    Instant steady = kept;
    steady.phase = phase;
    // A layer that is gathered (as the ranks sent it, too, if there are others), and the gradients of one
    // before they are reduced.
    if (job.device == Device::cpu) steady.add(FitItem::staging, (job.world() > 1 ? 3 : 2) * layer);
    memory.instants.push_back(steady);
  }
  if (is_ours) {  // set_state_dict() of torch.distributed.checkpoint, into states that are there already
    memory.instants.push_back(Instant{FitPhase::resume}
                                  .add(sharded)
                                  .add(FitItem::masters, masters)
                                  .add(FitItem::moments, moments)
                                  .add(FitItem::conversion, stepped * cast_bytes(job)));
  }
  // A gradient of a GPU is copied to pinned memory, too (foreach_reduce() of _fsdp_collectives.py).
  const bool pins_gradients = job.device == Device::gpu;
  if (job.pinned) memory.pinned_bytes = shard * type + (pins_gradients ? stepped * type : 0);
  return memory;
}

}  // namespace zf
