#include "worker/stepper.hpp"

#include <algorithm>
#include <cassert>
#include <exception>
#include <utility>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/format.hpp"
#include "base/text.hpp"
#include "engine/dither.hpp"

namespace zf {
static_assert(kChunkGrain % kSliceGrain == 0 && kSliceGrain % kRollbackGrain == 0);
namespace {

std::vector<GroupCut> cuts_of(const Arena& arena) {
  std::vector<GroupCut> cuts;
  for (std::size_t i = 0; i < arena.control().group_count; ++i) {
    cuts.push_back({arena.group(i).elements, arena.group(i).chunk_elements});
  }
  return cuts;
}

/// Elements of a slice that are copied and then stepped. Twice as many, of all arrays, stay in the L2 cache:
/// while these are stepped, the next ones are prefetched, because a copy that also reads from memory leaves
/// bandwidth unused.
constexpr std::size_t kSavedElements = 4096;

bool is_save(const GroupTask& task) { return task.entry.kind == WorkKind::save; }

KernelVariant variant_of(const GroupBlock& group, const GroupRequest& request) {
  KernelVariant variant;
  variant.grad = group.grad_type;
  variant.format = group.format;
  if (group.has_copy()) variant.copy = group.copy_type;
  variant.stale = group.has_stale();
  variant.mode = request.mode;
  variant.decay = request.scalars.decay != 0.0F;
  variant.undo = true;
  return variant;
}

}  // namespace

Stepper::Stepper(Arena& arena, Pool& pool, Isa isa)
    : arena_(arena),
      pool_(pool),
      isa_(isa),
      norms_(arena, isa),
      saving_(arena, isa),
      shares_(deal_shares(cuts_of(arena), pool.size())) {
  if (pool.size() != arena.control().members) {
    throw Error(Exit::runtime_error,
                format_text("the pool has {}, and the arena was made for {}",
                            print_count(pool.size(), "thread"), arena.control().members));
  }
  batch_.reserve(2 * std::size_t{arena.control().group_count});
  task_of_group_.assign(arena.control().group_count, 0);
}

void Stepper::place_memory() {
  // A worker that was ready has reserved all pages. Its successor only maps them, which is much faster.
  const bool is_reserved = arena_.control().stats.start_ns.load(std::memory_order_relaxed) != 0;
  const std::uint64_t room = saving_.room_to_place(is_reserved);
  std::vector<std::exception_ptr> failures(pool_.size());
  pool_.run([&](std::size_t member) {
    try {
      for (std::size_t i = 0; i < shares_.size(); ++i) {
        const GroupBlock& group = arena_.group(i);
        for (const std::vector<Slice>& chunk : shares_[i]) {
          const Slice& slice = chunk[member];
          const auto place = [&](const ArrayPlace& part) {
            if (is_reserved) {
              arena_.map_reserved(part.offset, part.bytes);
            } else {
              arena_.reserve(part.offset, part.bytes);
            }
          };
          for (const ArrayPlace& array : group.arrays) place(group.part_of(array, slice.begin, slice.size()));
          if (group.log.bytes != 0)
            place({group.log.offset + rollback_bytes(slice.begin), rollback_bytes(slice.size())});
        }
      }
      saving_.place_memory(member, room, is_reserved);
    } catch (...) {
      failures[member] = std::current_exception();
    }
  });
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
  if (!is_reserved) saving_.note_placed(room);
}

void Stepper::serve(Nanoseconds spin_ns) {
  ControlBlock& control = arena_.control();
  // If work is already submitted, an earlier worker may have begun the first batch.
  bool resume =
      control.submitted.load(std::memory_order_seq_cst) != control.completed.load(std::memory_order_seq_cst);
  for (;;) {
    const std::uint64_t completed = control.completed.load(std::memory_order_seq_cst);
    const auto is_called = [&] {
      return control.submitted.load(std::memory_order_seq_cst) != completed ||
             control.stop.load(std::memory_order_seq_cst) != 0;
    };
    // If the trainer dies, the watching thread ends this process. The deadline only bounds each sleep.
    if (!control.work.wait(is_called, now_ns() + 60 * kSecondNs, spin_ns)) continue;
    const std::uint64_t submitted = control.submitted.load(std::memory_order_seq_cst);
    if (submitted == completed) return;

    for (const GroupTask& task : batch_) task_of_group_[task.entry.group] = 0;
    batch_.clear();
    taken_ = completed;
    extend_batch(submitted);
    run_batch(resume);
    resume = false;
    commit_batch();
    control.completed.store(taken_, std::memory_order_seq_cst);
    control.done.ring();
  }
}

void Stepper::extend_batch(std::uint64_t submitted) {
  for (; taken_ != submitted; ++taken_) {
    const WorkEntry& entry = arena_.entry(taken_);
    assert(entry.group < arena_.control().group_count && entry.buffer < kGradBuffers);
    if (!can_join(entry)) return;
    GroupTask task = task_of(entry);
    std::size_t& place = task_of_group_[entry.group];
    if (place != 0) {
      GroupTask& save = batch_[place - 1];
      task.saves = std::exchange(save.saves, false);
      save.is_done = true;
    }
    batch_.push_back(task);
    place = batch_.size();
  }
}

bool Stepper::can_join(const WorkEntry& entry) const {
  const std::size_t place = task_of_group_[entry.group];
  return place == 0 || (entry.kind == WorkKind::step && is_save(batch_[place - 1]) && saving_.may_join());
}

GroupTask Stepper::task_of(const WorkEntry& entry) const {
  GroupTask task;
  task.entry = entry;
  task.saves = is_save(task);
  if (entry.kind == WorkKind::norm || entry.kind == WorkKind::save) return task;
  GroupBlock& group = arena_.group(entry.group);
  const bool is_speculation = entry.kind == WorkKind::speculate || entry.kind == WorkKind::take_back;
  const GroupRequest& request = (is_speculation ? group.speculations : group.requests)[entry.buffer];
  task.serial = request.serial;
  task.number = request.step;
  task.variant = variant_of(group, request);
  const auto start = [&](const ArrayPlace& array) -> void* {
    return array.bytes == 0 ? nullptr : arena_.at<void>(array.offset);
  };
  task.step = {.p = start(group.place(ArrayKind::params)),
               .g = start(group.grads(entry.buffer)),
               .m = start(group.moment1(entry.buffer)),
               .v = start(group.moment2(entry.buffer)),
               .stale = static_cast<float*>(start(group.place(ArrayKind::stale))),
               .copy = start(group.place(ArrayKind::copy)),
               .elements = group.elements,
               .first_element = group.first_element,
               .ranges = arena_.ranges(group),
               .grad_type = group.grad_type,
               .format = group.format,
               .dither = dither_of(request.seed, request.step),
               .scalars = request.scalars,
               .kernel = adam_kernel(isa_, task.variant)};
  return task;
}

void Stepper::run_task(const GroupTask& task, std::size_t member, bool resume) const {
  const GroupShares& chunks = shares_[task.entry.group];
  for (std::size_t i = task.entry.begin_chunk; i < task.entry.end_chunk; ++i) {
    const Slice& slice = chunks[i][member];
    const std::uint64_t chunk = task.entry.first_chunk + i;
    // It starts again from the beginning after a death, since it changes no state.
    if (task.entry.kind == WorkKind::norm) {
      norms_.sum(task.entry.group, task.entry.buffer, slice);
      continue;
    }
    if (resume && arena_.member(member).chunks.load(std::memory_order_acquire) > chunk) continue;
    if (slice.size() != 0) work_on_slice(task, chunk, slice, member, resume);
    report(member, chunk);
  }
}

void Stepper::work_on_slice(const GroupTask& task, std::uint64_t chunk, const Slice& slice,
                            std::size_t member, bool resume) const {
  UndoLog& undo = undo_of(member);
  const AdamArrays arrays = arrays_of(task.step, slice, prefetch_distance_);
  const std::size_t at = resume ? roll_back(undo, chunk, arrays, task.variant.format) : 0;
  switch (task.entry.kind) {
    case WorkKind::norm:
    case WorkKind::save:
      break;
    case WorkKind::step:
      if (resume) return finish_slice(task, chunk, slice, at, undo);
      if (saving_.is_by_step(task.entry.group)) return save_and_step(task, task.step, chunk, slice, 0, undo);
      begin_run(undo, chunk, 0);
      return step_part(task.step, slice, prefetch_distance_, &undo);
    case WorkKind::keep:
      return keep_slice(task, chunk, slice, at, resume, undo);
    case WorkKind::speculate:
      if (!resume) return speculate_slice(task, chunk, slice, undo);
      log_of(task, slice).stepped = at;  // a death is rare: what decides steps the rest
      return;
    case WorkKind::take_back:
      return take_slice_back(task, chunk, slice, at, undo);
  }
}

void Stepper::keep_slice(const GroupTask& task, std::uint64_t chunk, const Slice& slice, std::size_t at,
                         bool resume, UndoLog& undo) const {
  RollbackHeader& log = log_of(task, slice);
  if (log.stepped == 0 && !resume) {  // not speculated: one pass does all
    begin_run(undo, chunk, 0);
    return step_part(task.step, slice, prefetch_distance_, &undo);
  }
  finish_slice(task, chunk, slice, std::max(at, log.stepped), undo);
  log.stepped = 0;  // after a death here, the run in the undo log says that all is stepped
}

void Stepper::finish_slice(const GroupTask& task, std::uint64_t chunk, const Slice& slice, std::size_t at,
                           UndoLog& undo) const {
  // Step the rest of the slice without outputs. Outputs of the part before may be lost or not written yet, so
  // all of them are written afterwards.
  KernelVariant variant = task.variant;
  variant.stale = false;
  variant.copy = ElementType::none;
  TensorStep step = task.step;
  step.kernel = adam_kernel(isa_, variant);
  if (saving_.is_by_step(task.entry.group)) {
    save_and_step(task, step, chunk, slice, at, undo);
  } else {
    begin_run(undo, chunk, at);
    step_part(step, {slice.begin + at, slice.end}, prefetch_distance_, &undo);
  }
  output_kernel(isa_, task.variant)(arrays_of(task.step, slice, prefetch_distance_));
}

void Stepper::save_and_step(const GroupTask& task, const TensorStep& step, std::uint64_t chunk,
                            const Slice& slice, std::size_t at, UndoLog& undo) const {
  saving_.reserve(task.entry.group, {slice.begin + at, slice.end});
  // After a death nothing before `at` needs a copy: it was made before that was stepped.
  for (std::size_t end = at; at != slice.size(); at = end) {
    end = std::min(at + kSavedElements, slice.size());
    const Slice piece = {slice.begin + at, slice.begin + end};
    saving_.copy_elements(task.entry.group, piece);
    begin_run(undo, chunk, at);
    step_part(step, piece, kSavedElements, &undo);
  }
}

void Stepper::speculate_slice(const GroupTask& task, std::uint64_t chunk, const Slice& slice,
                              UndoLog& undo) const {
  RollbackHeader& log = log_of(task, slice);
  log.stepped = 0;
  if (!can_be_taken_back(task.variant)) return;
  begin_run(undo, chunk, 0);
  AdamArrays arrays = arrays_of(task.step, slice, prefetch_distance_);
  arrays.undo = &undo;
  log.stepped =
      speculate_kernel(isa_, task.variant)(task.step.scalars, arrays, rollback_place(log, slice.size(), 0));
}

void Stepper::take_slice_back(const GroupTask& task, std::uint64_t chunk, const Slice& slice, std::size_t at,
                              UndoLog& undo) const {
  RollbackHeader& log = log_of(task, slice);
  if (at < log.stepped) {
    begin_run(undo, chunk, at);
    AdamArrays arrays =
        arrays_of(task.step, {slice.begin + at, slice.begin + log.stepped}, prefetch_distance_);
    arrays.undo = &undo;
    take_back_kernel(isa_, task.variant)(task.step.scalars, arrays, rollback_place(log, slice.size(), at));
  }
  log.stepped = 0;
}

void Stepper::report(std::size_t member, std::uint64_t chunk) const {
  // The kernel ends with a fence if it used non-temporal stores, so they are visible before this store.
  ControlBlock& control = arena_.control();
  arena_.member(member).chunks.store(chunk + 1, std::memory_order_seq_cst);
  // A trainer that only waits for the end sleeps on. As in Doorbell::ring(), either the trainer sees this
  // chunk or we see its wish.
  if (control.wants_chunks.load(std::memory_order_seq_cst) != 0) control.done.ring();
}

void Stepper::run_batch(bool resume) {
  const Nanoseconds begin = now_ns();
  if (resume && std::ranges::any_of(batch_, &GroupTask::saves)) saving_.resume();
  for (;;) {
    run_tasks(resume);
    if (std::ranges::all_of(batch_, &GroupTask::is_done)) break;
    run_saves();
    extend_batch(arena_.control().submitted.load(std::memory_order_seq_cst));
  }
  WorkerStats& stats = arena_.control().stats;
  const auto step_ns = static_cast<std::uint64_t>(now_ns() - begin);
  stats.last_step_ns.store(step_ns, std::memory_order_relaxed);
  stats.total_step_ns.fetch_add(step_ns, std::memory_order_relaxed);
  stats.batches.fetch_add(1, std::memory_order_relaxed);
}

void Stepper::run_tasks(bool resume) {
  bool has_work = false;
  for (const GroupTask& task : batch_) {
    if (task.is_done || is_save(task)) continue;
    has_work = has_work || arena_.group(task.entry.group).elements != 0;
    if (task.saves) saving_.begin_step(task.entry.group);
  }
  if (has_work) {
    pool_.run([this, resume](std::size_t member) {
      for (const GroupTask& task : batch_) {
        if (!task.is_done && !is_save(task)) run_task(task, member, resume);
      }
    });
  }
  for (GroupTask& task : batch_) {
    task.is_done = task.is_done || !is_save(task);
    if (task.saves && !is_save(task)) saving_.end_step(task.entry.group);
  }
}

void Stepper::run_saves() {
  const ControlBlock& control = arena_.control();
  const auto gives_way = [&] {
    return control.submitted.load(std::memory_order_seq_cst) != taken_ && can_join(arena_.entry(taken_));
  };
  pool_.run([&](std::size_t member) {
    for (const GroupTask& task : batch_) {
      if (!task.is_done && is_save(task) && !saving_.copy(task.entry.group, member, gives_way)) return;
    }
  });
  for (GroupTask& task : batch_) task.is_done = task.is_done || saving_.is_over(task.entry.group);
}

void Stepper::commit_batch() {
  for (const GroupTask& task : batch_) {
    GroupBlock& group = arena_.group(task.entry.group);
    if (task.entry.kind == WorkKind::norm) {
      norms_.add_up(task.entry.group, task.entry.buffer);
      continue;
    }
    group.speculated = task.entry.kind == WorkKind::speculate ? 1 + task.entry.buffer : 0;
    if (task.saves) {
      saving_.note_step(task.entry.group,
                        is_save(task) ? group.committed.load(std::memory_order_relaxed) : task.serial - 1);
    }
    if (task.entry.kind != WorkKind::step && task.entry.kind != WorkKind::keep) continue;
    const std::uint64_t committed = group.committed.load(std::memory_order_relaxed);
    if (committed == task.serial) continue;  // committed by a worker that died before it could report it
    assert(task.serial == committed + 1);
    group.steps[task.serial % 2] = task.number;
    group.committed.store(task.serial, std::memory_order_release);
  }
}

}  // namespace zf
