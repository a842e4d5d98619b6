// Does the work of the optimizer: gives pages to every slice once, then steps groups as they are submitted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/clock.hpp"
#include "engine/isa.hpp"
#include "engine/kernel.hpp"
#include "engine/pool.hpp"
#include "engine/rollback.hpp"
#include "engine/tensor_step.hpp"
#include "engine/undo.hpp"
#include "ipc/arena.hpp"
#include "worker/norms.hpp"
#include "worker/saving.hpp"
#include "worker/shares.hpp"

namespace zf {

/// The work on one group in one fork-join.
struct GroupTask {
  WorkEntry entry = {};
  bool saves = false;    ///< copies the group's state: a save, or the step that has joined it
  bool is_done = false;  ///< of this task nothing is left to do but to commit it
  // not for a norm or a save:
  std::uint64_t serial = 0;  ///< for a step: the value of GroupBlock::committed when it is done
  std::uint64_t number = 0;  ///< of the step
  KernelVariant variant = {};
  TensorStep step = {};
};

/// Does the submitted work in the arena. Only the thread that owns the pool may use it.
class Stepper {
 public:
  /// Throws Error(runtime_error) if the arena was made for another number of threads.
  Stepper(Arena& arena, Pool& pool, Isa isa);

  /// Lets every member allocate the pages of its own slices, so that they lie on the nodes that its memory
  /// policy says. Throws Error(runtime_error) if memory runs out. A restarted worker finds the pages
  /// allocated, maps them, and throws nothing.
  void place_memory();

  /// Finishes the work over which another worker died. Then does submitted work until the trainer asks it to
  /// stop, and finishes what is submitted by then. It spins for `spin_ns` before it sleeps.
  void serve(Nanoseconds spin_ns);

 private:
  /// Takes submitted work into the batch, at most one task per group, because a second step of a group needs
  /// the first. But a step joins the save before it.
  void extend_batch(std::uint64_t submitted);
  /// Returns whether an entry may be taken into the batch.
  bool can_join(const WorkEntry& entry) const;
  GroupTask task_of(const WorkEntry& entry) const;
  void run_batch(bool resume);
  /// Does what is to be done in the batch, except saves without a step.
  void run_tasks(bool resume);
  /// Copies for saves without a step, until that is done or another task can join.
  void run_saves();
  /// Does a member's part of a task.
  void run_task(const GroupTask& task, std::size_t member, bool resume) const;
  /// Does the work on a slice that is not empty. With `resume` an earlier worker may have begun, finished or
  /// torn it.
  void work_on_slice(const GroupTask& task, std::uint64_t chunk, const Slice& slice, std::size_t member,
                     bool resume) const;
  /// Steps a slice from its element `at` on, and writes the outputs of all of it.
  void finish_slice(const GroupTask& task, std::uint64_t chunk, const Slice& slice, std::size_t at,
                    UndoLog& undo) const;
  /// Keeps the speculated part of a slice, and steps the rest.
  void keep_slice(const GroupTask& task, std::uint64_t chunk, const Slice& slice, std::size_t at, bool resume,
                  UndoLog& undo) const;
  /// Copies and steps a slice from its element `at` on, in pieces that the cache holds.
  void save_and_step(const GroupTask& task, const TensorStep& step, std::uint64_t chunk, const Slice& slice,
                     std::size_t at, UndoLog& undo) const;
  void speculate_slice(const GroupTask& task, std::uint64_t chunk, const Slice& slice, UndoLog& undo) const;
  /// Takes the speculated step of a slice back, from its element `at` on.
  void take_slice_back(const GroupTask& task, std::uint64_t chunk, const Slice& slice, std::size_t at,
                       UndoLog& undo) const;
  RollbackHeader& log_of(const GroupTask& task, const Slice& slice) const {
    const std::uint64_t log = arena_.group(task.entry.group).log.offset;
    return *arena_.at<RollbackHeader>(log + rollback_bytes(slice.begin));
  }
  /// Reports that the member has done its part of all chunks up to this one.
  void report(std::size_t member, std::uint64_t chunk) const;
  void commit_batch();
  UndoLog& undo_of(std::size_t member) const {
    return arena_.at<UndoLog>(arena_.control().undo_offset)[member];
  }

  Arena& arena_;
  Pool& pool_;
  Isa isa_;
  std::size_t prefetch_distance_ = preferred_prefetch_distance();
  Norms norms_;
  Saving saving_;
  std::vector<GroupShares> shares_;
  std::vector<GroupTask> batch_;  ///< has room for two of every group, so that a step allocates nothing
  std::vector<std::size_t> task_of_group_;  ///< 1 + the place of its last task in batch_; 0: it has none
  std::uint64_t taken_ = 0;                 ///< entries that were taken into a batch, in order
};

}  // namespace zf
