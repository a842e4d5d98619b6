#include "worker/stepper.hpp"

#include <fmt/core.h>

#include <cassert>
#include <exception>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "worker/shares.hpp"
#include "worker/wire.hpp"

namespace zf {
static_assert(sizeof(UndoLog) == kUndoBytes);
namespace {

std::vector<std::uint64_t> elements_of(const Arena& arena) {
  std::vector<std::uint64_t> elements;
  for (std::size_t i = 0; i < arena.control().group_count; ++i) elements.push_back(arena.group(i).elements);
  return elements;
}

/// The bytes of an array that belong to a slice of its group.
ArrayPlace part_of(const ArrayPlace& array, const GroupBlock& group, const Slice& slice) {
  if (group.elements == 0) return {array.offset, 0};
  const std::uint64_t each = array.bytes / group.elements;
  return {array.offset + slice.begin * each, slice.size() * each};
}

}  // namespace

Stepper::Stepper(Arena& arena, Pool& pool, Isa isa)
    : arena_(arena), pool_(pool), isa_(isa), shares_(shares_of(elements_of(arena), pool.size())) {
  if (pool.size() > arena.control().undo_logs) {
    throw Error(Exit::runtime_error, fmt::format("{} threads, in an arena that was made for {}", pool.size(),
                                                 arena.control().undo_logs));
  }
  batch_.reserve(arena.control().group_count);
  batch_of_group_.assign(arena.control().group_count, 0);
}

void Stepper::place_memory() {
  std::vector<std::exception_ptr> failures(pool_.size());
  pool_.run([&](std::size_t member) {
    try {
      for (std::size_t i = 0; i < shares_.size(); ++i) {
        const GroupBlock& group = arena_.group(i);
        for (const ArrayPlace& array : group.arrays) {
          const ArrayPlace part = part_of(array, group, shares_[i][member]);
          arena_.reserve(part.offset, part.bytes);
        }
      }
    } catch (...) {
      failures[member] = std::current_exception();
    }
  });
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
}

void Stepper::serve() {
  ControlBlock& control = arena_.control();
  // True for the first batch of a worker that finds one: whoever was here before may have begun it.
  bool resume =
      control.submitted.load(std::memory_order_seq_cst) != control.completed.load(std::memory_order_seq_cst);
  for (;;) {
    const std::uint64_t completed = control.completed.load(std::memory_order_seq_cst);
    const auto is_called = [&] {
      return control.submitted.load(std::memory_order_seq_cst) != completed ||
             control.stop.load(std::memory_order_seq_cst) != 0;
    };
    // The trainer's death ends this process from the watching thread; the deadline only bounds each sleep.
    if (!control.work.wait(is_called, now_ns() + 60 * kSecondNs, control.spin_ns)) continue;
    const std::uint64_t submitted = control.submitted.load(std::memory_order_seq_cst);
    if (submitted == completed) return;

    take_batch(completed, submitted);
    run_batch(resume);
    resume = false;
    commit_batch();
    control.completed.store(completed + batch_.size(), std::memory_order_seq_cst);
    control.done.ring();
  }
}

void Stepper::take_batch(std::uint64_t completed, std::uint64_t submitted) {
  batch_.clear();
  ++batch_number_;
  for (std::uint64_t count = completed; count != submitted; ++count) {
    const WorkEntry& entry = arena_.entry(count);
    assert(entry.group < arena_.control().group_count && entry.buffer < kGradBuffers);
    if (batch_of_group_[entry.group] == batch_number_) return;
    batch_of_group_[entry.group] = batch_number_;
    batch_.push_back(job_of(count));
  }
}

Job Stepper::job_of(std::uint64_t count) const {
  const WorkEntry& entry = arena_.entry(count);
  const GroupBlock& group = arena_.group(entry.group);
  const GroupRequest& request = group.requests[entry.buffer];
  const AdamSettings settings = settings_of(request);
  const AdamProgress before =
      progress_of(group.progress[group.committed.load(std::memory_order_acquire) % 2]);
  Job job;
  job.group = entry.group;
  job.buffer = entry.buffer;
  job.entry = count;
  job.serial = request.serial;
  job.committed = group.committed.load(std::memory_order_acquire) == request.serial;
  job.variant = variant_of(group, settings);
  job.variant.undo = true;
  job.kernel = adam_kernel(isa_, job.variant);
  job.progress = advanced(before, settings, request.step != 0 ? request.step : before.step + 1);
  job.scalars = scalars_of(settings, job.progress);
  return job;
}

AdamArrays Stepper::arrays_of(const Job& job, const Slice& slice) const {
  const GroupBlock& group = arena_.group(job.group);
  const auto start = [&](const ArrayPlace& array) -> void* {
    const ArrayPlace part = part_of(array, group, slice);
    return part.bytes == 0 ? nullptr : arena_.at<void>(part.offset);
  };
  AdamArrays arrays;
  arrays.p = static_cast<float*>(start(group.place(ArrayKind::params)));
  arrays.g = start(group.grads(job.buffer));
  arrays.m = static_cast<float*>(start(group.place(ArrayKind::moment1)));
  arrays.v = static_cast<float*>(start(group.place(ArrayKind::moment2)));
  arrays.stale = static_cast<float*>(start(group.place(ArrayKind::stale)));
  arrays.copy = start(group.place(ArrayKind::copy));
  arrays.n = slice.size();
  return arrays;
}

void Stepper::step_slice(const Job& job, std::size_t member) const {
  const Slice& slice = shares_[job.group][member];
  if (slice.size() == 0) return;
  AdamArrays arrays = arrays_of(job, slice);
  arrays.undo = &undo_of(member);
  begin_run(*arrays.undo, job.entry, 0);
  job.kernel(job.scalars, arrays);
}

void Stepper::resume_slice(const Job& job, std::size_t member) const {
  const Slice& slice = shares_[job.group][member];
  UndoLog& undo = undo_of(member);
  if (slice.size() == 0 || job.committed || is_past(undo, job.entry)) return;
  const AdamArrays arrays = arrays_of(job, slice);
  const std::size_t at = roll_back(undo, job.entry, arrays);

  // What is not stepped yet, without outputs: those of the part before may be lost, and are all made again.
  KernelVariant variant = job.variant;
  variant.stale = false;
  variant.copy = CopyType::none;
  AdamArrays rest = arrays_of(job, {slice.begin + at, slice.end});
  rest.undo = &undo;
  begin_run(undo, job.entry, at);
  adam_kernel(isa_, variant)(job.scalars, rest);
  output_kernel(isa_, job.variant)(arrays);
}

void Stepper::run_batch(bool resume) {
  const Nanoseconds begin = now_ns();
  bool has_work = false;
  for (const Job& job : batch_) has_work = has_work || arena_.group(job.group).elements != 0;
  if (has_work) {
    pool_.run([this, resume](std::size_t member) {
      for (const Job& job : batch_) resume ? resume_slice(job, member) : step_slice(job, member);
    });
  }
  WorkerStats& stats = arena_.control().stats;
  const auto step_ns = static_cast<std::uint64_t>(now_ns() - begin);
  stats.last_step_ns.store(step_ns, std::memory_order_relaxed);
  stats.total_step_ns.fetch_add(step_ns, std::memory_order_relaxed);
  stats.batches.fetch_add(1, std::memory_order_relaxed);
}

void Stepper::commit_batch() {
  for (const Job& job : batch_) {
    if (job.committed) continue;
    GroupBlock& group = arena_.group(job.group);
    assert(job.serial == group.committed.load(std::memory_order_relaxed) + 1);
    group.progress[job.serial % 2] = wire_progress(job.progress);
    group.committed.store(job.serial, std::memory_order_release);
  }
}

}  // namespace zf
