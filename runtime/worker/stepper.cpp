#include "worker/stepper.hpp"

#include <fmt/core.h>

#include <cassert>
#include <exception>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "worker/wire.hpp"

namespace zf {
static_assert(sizeof(UndoLog) == kUndoBytes && kChunkGrain % kSliceGrain == 0);
namespace {

std::vector<GroupCut> cuts_of(const Arena& arena) {
  std::vector<GroupCut> cuts;
  for (std::size_t i = 0; i < arena.control().group_count; ++i) {
    cuts.push_back({arena.group(i).elements, arena.group(i).chunk_elements});
  }
  return cuts;
}

}  // namespace

Stepper::Stepper(Arena& arena, Pool& pool, Isa isa)
    : arena_(arena),
      pool_(pool),
      isa_(isa),
      norms_(arena, isa),
      shares_(shares_of(cuts_of(arena), pool.size())) {
  if (pool.size() != arena.control().members) {
    throw Error(Exit::runtime_error, fmt::format("{} threads, in an arena that was made for {}", pool.size(),
                                                 arena.control().members));
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
        for (const std::vector<Slice>& chunk : shares_[i]) {
          const Slice& slice = chunk[member];
          for (const ArrayPlace& array : group.arrays) {
            const ArrayPlace part = part_of(array, group, slice.begin, slice.size());
            arena_.reserve(part.offset, part.bytes);
          }
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
    batch_.push_back(job_of(entry));
  }
}

Job Stepper::job_of(const WorkEntry& entry) const {
  Job job;
  job.entry = entry;
  if (entry.kind == WorkKind::norm) return job;
  GroupBlock& group = arena_.group(entry.group);
  const GroupRequest& request = group.requests[entry.buffer];
  const AdamSettings settings = settings_of(request);
  const AdamProgress before = progress_of(last_progress(group));
  job.serial = request.serial;
  job.variant = variant_of(group, settings);
  job.variant.undo = true;
  job.kernel = adam_kernel(isa_, job.variant);
  job.progress = advanced(before, settings, request.step != 0 ? request.step : before.step + 1);
  job.scalars = scalars_of(settings, job.progress);
  return job;
}

AdamArrays Stepper::arrays_of(const Job& job, const Slice& slice) const {
  const GroupBlock& group = arena_.group(job.entry.group);
  const auto start = [&](const ArrayPlace& array) -> void* {
    const ArrayPlace part = part_of(array, group, slice.begin, slice.size());
    return part.bytes == 0 ? nullptr : arena_.at<void>(part.offset);
  };
  AdamArrays arrays;
  arrays.p = static_cast<float*>(start(group.place(ArrayKind::params)));
  arrays.g = start(group.grads(job.entry.buffer));
  arrays.m = static_cast<float*>(start(group.place(ArrayKind::moment1)));
  arrays.v = static_cast<float*>(start(group.place(ArrayKind::moment2)));
  arrays.stale = static_cast<float*>(start(group.place(ArrayKind::stale)));
  arrays.copy = start(group.place(ArrayKind::copy));
  arrays.n = slice.size();
  arrays.ahead = ahead_;
  return arrays;
}

void Stepper::run_job(const Job& job, std::size_t member, bool resume) const {
  const GroupShares& chunks = shares_[job.entry.group];
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    const Slice& slice = chunks[i][member];
    const std::uint64_t chunk = job.entry.first_chunk + i;
    if (job.entry.kind == WorkKind::norm) {
      norms_.sum(job.entry.group, job.entry.buffer, slice);  // from the start again: it changes nothing
    } else if (resume) {
      resume_slice(job, chunk, slice, member);
    } else {
      step_slice(job, chunk, slice, member);
    }
  }
}

void Stepper::step_slice(const Job& job, std::uint64_t chunk, const Slice& slice, std::size_t member) const {
  if (slice.size() != 0) {
    AdamArrays arrays = arrays_of(job, slice);
    arrays.undo = &undo_of(member);
    begin_run(*arrays.undo, chunk, 0);
    job.kernel(job.scalars, arrays);
  }
  report(member, chunk);
}

void Stepper::resume_slice(const Job& job, std::uint64_t chunk, const Slice& slice,
                           std::size_t member) const {
  if (arena_.member(member).chunks.load(std::memory_order_acquire) > chunk) return;
  if (slice.size() != 0) {
    UndoLog& undo = undo_of(member);
    const AdamArrays arrays = arrays_of(job, slice);
    const std::size_t at = roll_back(undo, chunk, arrays);

    // What is not stepped yet, without outputs: those of the part before may be lost, and are all made again.
    KernelVariant variant = job.variant;
    variant.stale = false;
    variant.copy = CopyType::none;
    AdamArrays rest = arrays_of(job, {slice.begin + at, slice.end});
    rest.undo = &undo;
    begin_run(undo, chunk, at);
    adam_kernel(isa_, variant)(job.scalars, rest);
    output_kernel(isa_, job.variant)(arrays);
  }
  report(member, chunk);
}

void Stepper::report(std::size_t member, std::uint64_t chunk) const {
  // The kernel's last instruction was a fence where it has non-temporal stores, which no store is behind.
  arena_.member(member).chunks.store(chunk + 1, std::memory_order_seq_cst);
  arena_.control().done.ring();
}

void Stepper::run_batch(bool resume) {
  const Nanoseconds begin = now_ns();
  bool has_work = false;
  for (const Job& job : batch_) has_work = has_work || arena_.group(job.entry.group).elements != 0;
  if (has_work) {
    pool_.run([this, resume](std::size_t member) {
      for (const Job& job : batch_) run_job(job, member, resume);
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
    GroupBlock& group = arena_.group(job.entry.group);
    if (job.entry.kind == WorkKind::norm) {
      norms_.add_up(job.entry.group, job.entry.buffer);
      continue;
    }
    const std::uint64_t committed = group.committed.load(std::memory_order_relaxed);
    if (committed == job.serial) continue;  // by a worker that died before it could say so
    assert(job.serial == committed + 1);
    group.progress[job.serial % 2] = wire_progress(job.progress);
    group.committed.store(job.serial, std::memory_order_release);
  }
}

}  // namespace zf
