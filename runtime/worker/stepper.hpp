// The optimizer's work: pages for every slice once, then steps as they are submitted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/adam.hpp"
#include "engine/isa.hpp"
#include "engine/kernel.hpp"
#include "engine/pool.hpp"
#include "engine/undo.hpp"
#include "ipc/arena.hpp"
#include "worker/norms.hpp"
#include "worker/shares.hpp"

namespace zf {

/// One group of one fork-join.
struct GroupTask {
  WorkEntry entry = {};
  // Of a step:
  std::uint64_t serial = 0;  ///< GroupBlock::committed when it is done
  KernelVariant variant = {};
  AdamKernel kernel = nullptr;
  AdamScalars scalars = {};
  AdamProgress progress = {};  ///< after this step
};

/// Used by one thread: the one that owns the pool.
class Stepper {
 public:
  /// Throws Error(runtime_error) when the arena was made for another number of threads.
  Stepper(Arena& arena, Pool& pool, Isa isa);

  /// Every member gives pages to its own slices, so that they lie where its memory policy and its node say.
  /// Throws Error(runtime_error) when memory runs out.
  void place_memory();

  /// Finishes what another worker died over; steps what is submitted, as it comes, until the trainer says
  /// stop; then finishes what is submitted.
  void serve();

 private:
  /// Takes what is submitted, at most once per group, since a second step of a group needs the first.
  void take_batch(std::uint64_t completed, std::uint64_t submitted);
  GroupTask task_of(const WorkEntry& entry) const;
  void run_batch(bool resume);
  /// A member's part of a task.
  void run_task(const GroupTask& task, std::size_t member, bool resume) const;
  void step_slice(const GroupTask& task, std::uint64_t chunk, const Slice& slice, std::size_t member) const;
  /// The same for a slice that a worker before this one may have begun, finished or torn.
  void resume_slice(const GroupTask& task, std::uint64_t chunk, const Slice& slice, std::size_t member) const;
  /// The member has done its part of all chunks up to this one.
  void report(std::size_t member, std::uint64_t chunk) const;
  void commit_batch();
  UndoLog& undo_of(std::size_t member) const {
    return arena_.at<UndoLog>(arena_.control().undo_offset)[member];
  }
  AdamArrays arrays_of(const GroupTask& task, const Slice& slice) const;

  Arena& arena_;
  Pool& pool_;
  Isa isa_;
  std::size_t prefetch_distance_ = preferred_prefetch_distance();
  Norms norms_;
  std::vector<GroupShares> shares_;
  std::vector<GroupTask> batch_;               ///< room for every group: a step allocates nothing
  std::vector<std::uint64_t> batch_of_group_;  ///< the last batch that each group was in
  std::uint64_t batch_number_ = 0;
};

}  // namespace zf
