#include "abi/runtime.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <string>
#include <utility>

#include "abi/status.hpp"
#include "abi/versioned.hpp"
#include "base/cpu_list.hpp"
#include "base/format.hpp"
#include "base/text.hpp"
#include "ipc/notes.hpp"
#include "os/thread_moves.hpp"

namespace zf {
namespace {

bool has_array(const GroupBlock& group, zf_buffer_kind kind) {
  switch (kind) {
    case ZF_GRADS_1:
      return group.has_second_grads();
    case ZF_STALE:
      return group.has_stale();
    case ZF_COPY:
      return group.copy_type != ElementType::none;
    case ZF_MOMENT_1_SET_1:
    case ZF_MOMENT_2_SET_1:
      return group.has_second_moment_set();
    default:
      return kind >= 0 && static_cast<std::size_t>(kind) < kArrayKinds;
  }
}

}  // namespace

Runtime::Runtime(Opening opening)
    : owner_(getpid()),
      close_timeout_ns_(opening.close_timeout_ns),
      spin_ns_(opening.spin_ns),
      keeping_(std::move(opening.keeping)),
      memory_(std::move(opening.arena)),
      arena_(memory_.arena()),
      home_threads_(opening.home_threads),
      training_threads_(opening.training_threads),
      worker_(arena_, opening.start),
      submissions_(arena_),
      exporting_(arena_),
      prefault_(arena_),
      watch_(worker_, [this] { return on_death(); }) {
  if (keeping_ && keeping_->was_kept()) finish_begun(opening.start.timeout_ns);
  narrow(opening.narrowing);  // last, when nothing else fails, and when the watch has its thread
  if (keeping_) keeping_->hold();
}

void Runtime::finish_begun(Nanoseconds timeout_ns) {
  const Nanoseconds deadline = now_ns() + timeout_ns;
  const auto finish = [&] {
    if (await_ticket(submissions_.submitted(), deadline)) return;
    throw AbiError(ZF_TIMEOUT, "the step that the last trainer had begun is not finished in time",
                   "raise zf_options.start_timeout_ms");
  };
  finish();
  drop_notes(arena_,
             submissions_.submitted());  // of a step that was not submitted before the last trainer died
  submissions_.go_on();
  if (!submissions_.has_prepared()) submissions_.drop_prepared();
  submissions_.take_back_all();
  finish();
}

void Runtime::narrow(const NarrowingWish& wish) {
  if (!wish.wanted) return;
  if (wish.home == wish.training) {
    // Neighbours share the CPUs: the two sides divide threads, and none moves.
    if (training_threads_ < home_threads_) {
      narrowed_threads_ =
          static_cast<std::uint32_t>(move_threads(own_threads(), wish.home, wish.training).moved);
    }
    return;
  }
  narrowing_.emplace(wish.home, wish.training);
  narrowed_threads_ = static_cast<std::uint32_t>(narrowing_->moved());
  if (narrowing_->problem().empty()) return;
  narrow_note_ = format_text("not every thread was narrowed from the mask {} to {}: {}", print(wish.home),
                             print(wish.training), narrowing_->problem());
  if (wish.required) throw AbiError(ZF_ERROR_SYSTEM, narrow_note_, "leave zf_options.narrow at ZF_TRY");
}

void Runtime::check_process() const {
  if (getpid() == owner_) return;
  throw AbiError(ZF_ERROR_FORKED,
                 format_text("process {} uses a handle that process {} opened", getpid(), owner_),
                 "a forked child must open its own");
}

void Runtime::check_not_ended() const {
  if (ended_)
    throw AbiError(ZF_ERROR_USAGE, "the optimizer was ended by zf_end", "open another with zf_open");
}

bool Runtime::restart_worker() {
  if (!worker_.is_known_dead()) return true;
  const WorkerLink::Restart restart = worker_.restart();
  if (restart != WorkerLink::Restart::never) return restart == WorkerLink::Restart::done;
  const std::size_t restarts = worker_.recent_restarts();
  throw AbiError(ZF_WORKER_DIED,
                 restarts == 0 ? worker_.last_exit_reason()
                               : format_text("{}; it has been started again {} (zf_options.max_restarts)",
                                             worker_.last_exit_reason(), print_count(restarts, "time")));
}

WorkerLink::Restart Runtime::on_death() {
  const std::lock_guard lock(mutex_);
  return worker_.poll_exit() ? worker_.restart() : WorkerLink::Restart::done;
}

void Runtime::buffer(std::size_t group, zf_buffer_kind kind, void** pointer, std::size_t* bytes) const {
  submissions_.check_group(group);
  const GroupBlock& block = arena_.group(group);
  if (kind == ZF_PARAMS && has_split_masters(block.format)) {
    throw AbiError(ZF_ERROR_USAGE,
                   format_text("group {} has split masters, and so no array of fp32 parameters", group),
                   "read and write any range of them with zf_read_state and zf_write_state");
  }
  if (!has_array(block, kind)) {
    throw AbiError(ZF_ERROR_USAGE, format_text("group {} has no buffer of kind {}", group, kind),
                   "ZF_GRADS_1, ZF_STALE, ZF_COPY and the moments of set 1 exist only if zf_group asks for "
                   "them at zf_open");
  }
  const ArrayPlace& place = block.place(static_cast<ArrayKind>(kind));
  *pointer = arena_.at<void>(place.offset);
  if (bytes != nullptr) *bytes = place.bytes;
}

std::uint64_t Runtime::submit(const zf_submit_args& args) {
  check_not_ended();
  const std::scoped_lock lock(submit_mutex_, mutex_);
  check_not_ended();  // zf_end of another thread has taken speculated steps back
  restart_worker();   // during a pause the submission waits for the next worker
  return submissions_.submit(args);
}

std::uint64_t Runtime::go() {
  check_not_ended();
  const std::scoped_lock lock(submit_mutex_, mutex_);
  check_not_ended();
  restart_worker();
  return submissions_.go();
}

bool Runtime::wait(std::uint64_t ticket, std::int64_t timeout_ms) {
  check_not_ended();
  return await_ticket(known_ticket(ticket), deadline_of(timeout_ms));
}

bool Runtime::progress(std::uint64_t ticket, std::size_t group, std::uint64_t at_least,
                       std::int64_t timeout_ms, std::uint64_t* elements) {
  check_not_ended();
  submissions_.check_group(group);
  ticket = known_ticket(ticket);
  SubmittedStep step;
  {
    const std::lock_guard lock(mutex_);
    step = submissions_.last_step(group, ticket);
  }
  const std::uint64_t wanted = std::min(at_least, arena_.group(group).elements);
  const auto is_enough = [&] { return (*elements = elements_done(arena_, group, step)) >= wanted; };
  return await(is_enough, deadline_of(timeout_ms), WakeUps::each_chunk);
}

void Runtime::norm(std::size_t group, std::uint32_t buffer, double* sum_of_squares, std::int32_t* finite) {
  submissions_.check_group(group);
  if (buffer >= kGradBuffers)
    throw AbiError(ZF_ERROR_USAGE, format_text("buffer is {}; it must be 0 or 1", buffer));
  const GradientNorm& found = arena_.group(group).norms[buffer];
  *sum_of_squares = found.sum_of_squares;
  *finite = found.finite != 0 ? 1 : 0;
}

void Runtime::note(void* bytes, std::size_t size, std::uint64_t* step) {
  check_note_size(size);
  const std::lock_guard lock(mutex_);
  copy_note(last_note(arena_), bytes, step);
}

void Runtime::prepared_note(void* bytes, std::size_t size, std::uint64_t* step) {
  check_note_size(size);
  const std::lock_guard lock(mutex_);
  const bool is_there = submissions_.has_prepared() && arena_.control().prepared_note != 0;
  copy_note(is_there ? &next_note(arena_) : nullptr, bytes, step);
}

void Runtime::check_note_size(std::size_t size) const {
  const std::uint64_t given = arena_.control().note_bytes;
  if (size == given) return;
  throw AbiError(ZF_ERROR_USAGE, format_text("the note has {} bytes, and not {}", given, size),
                 "give as many as zf_options.note_bytes said");
}

void Runtime::copy_note(Note* note, void* bytes, std::uint64_t* step) const {
  *step = note == nullptr ? 0 : note->step;
  if (note != nullptr) std::memcpy(bytes, note->bytes(), arena_.control().note_bytes);
}

Nanoseconds Runtime::deadline_of(std::int64_t timeout_ms) {
  return now_ns() + (timeout_ms < 0 ? kForeverMs : std::min(timeout_ms, kForeverMs)) * kMillisecondNs;
}

std::uint64_t Runtime::known_ticket(std::uint64_t ticket) const {
  const std::uint64_t submitted = submissions_.submitted();
  if (ticket > submitted)
    throw AbiError(ZF_ERROR_USAGE,
                   format_text("ticket {} was never given out: the last one is {}", ticket, submitted));
  return ticket == 0 ? submitted : ticket;
}

template <class Happened>
bool Runtime::await(Happened happened, Nanoseconds deadline, WakeUps wake_ups) {
  if (happened()) return true;
  if (has_waiter_.exchange(true))
    throw AbiError(ZF_ERROR_BUSY, "another thread is in zf_wait or zf_progress",
                   "call these two from one thread at a time");
  const struct Leaving {
    std::atomic<bool>& flag;
    std::atomic<std::uint32_t>& wants_chunks;
    ~Leaving() {
      wants_chunks.store(0, std::memory_order_relaxed);
      flag.store(false);
    }
  } leaving{has_waiter_, arena_.control().wants_chunks};
  if (wake_ups == WakeUps::each_chunk) leaving.wants_chunks.store(1, std::memory_order_seq_cst);
  for (;;) {
    const auto answer = worker_.wait(happened, deadline, spin_ns_);
    if (answer != WorkerLink::Answer::died) return answer == WorkerLink::Answer::happened;
    {
      const std::lock_guard lock(mutex_);
      if (restart_worker()) continue;
    }
    // No worker rings now. Sleep until a worker may be started, but look again often: the watch may start it
    // too.
    const Nanoseconds now = now_ns();
    if (now >= deadline) return false;
    arena_.control().done.wait(happened,
                               std::min({deadline, std::max(worker_.restart_time(), now), now + kPollNs}), 0);
  }
}

bool Runtime::await_ticket(std::uint64_t ticket, Nanoseconds deadline) {
  const auto is_done = [&] { return arena_.control().completed.load(std::memory_order_seq_cst) >= ticket; };
  return await(is_done, deadline, WakeUps::end);
}

void Runtime::keep_facts_of_ready_worker() {
  const ControlBlock& control = arena_.control();
  const WorkerState state = control.prefix.worker_state.load(std::memory_order_seq_cst);
  if (state != WorkerState::ready && state != WorkerState::left) return;
  const WorkerStats& worker = control.stats;
  facts_.threads = worker.threads;
  static_assert(sizeof facts_.isa == sizeof worker.isa &&
                sizeof facts_.memory_note == sizeof worker.memory_note &&
                sizeof facts_.cpu_note == sizeof worker.cpu_note);
  std::memcpy(facts_.isa, worker.isa.bytes.data(), sizeof facts_.isa);
  std::memcpy(facts_.memory_note, worker.memory_note.bytes.data(), sizeof facts_.memory_note);
  facts_.pages_on_plan = worker.placement.pages_on_plan;
  facts_.pages_elsewhere = worker.placement.pages_elsewhere;
  facts_.pages_absent = worker.placement.pages_absent;
  facts_.huge_bytes = worker.placement.huge_bytes;
  facts_.locked_bytes = worker.placement.locked_bytes;
  facts_.degraded = worker.lost_cpus;
  std::memcpy(facts_.cpu_note, worker.cpu_note.bytes.data(), sizeof facts_.cpu_note);
}

zf_stats Runtime::stats() {
  // A worker that is just being started may finish a step before its start has been written down.
  const std::lock_guard lock(mutex_);
  const ControlBlock& control = arena_.control();
  const WorkerStats& worker = control.stats;
  keep_facts_of_ready_worker();
  zf_stats stats = facts_;
  stats.worker_alive = worker_.poll_exit() ? 0 : 1;
  stats.worker_pid = worker_.pid();
  stats.arena_bytes = control.arena_bytes;
  stats.submitted = control.submitted.load(std::memory_order_seq_cst);
  stats.completed = control.completed.load(std::memory_order_seq_cst);
  stats.batches = worker.batches.load(std::memory_order_relaxed);
  stats.last_step_ns = worker.last_step_ns.load(std::memory_order_relaxed);
  stats.total_step_ns = worker.total_step_ns.load(std::memory_order_relaxed);
  stats.start_ns = worker.start_ns.load(std::memory_order_relaxed);
  copy_text(narrow_note_, stats.narrow_note);
  stats.narrowed_threads = narrowed_threads_;
  stats.home_threads = home_threads_;
  stats.training_threads = training_threads_;
  stats.restarts = worker_.restarts();
  copy_text(worker_.last_exit_reason(), stats.last_death);
  stats.was_kept = keeping_ && keeping_->was_kept() ? 1 : 0;
  if (keeping_) copy_text(keeping_->note(), stats.keep_note);
  return stats;
}

void Runtime::end() {
  if (ended_.exchange(true)) return;
  const Nanoseconds deadline = now_ns() + close_timeout_ns_;
  {
    const std::scoped_lock lock(submit_mutex_, mutex_);
    submissions_.take_back_all();
  }
  exporting_.let_steps_go(deadline - close_timeout_ns_ / 2);
  try {
    await_ticket(submissions_.submitted(), deadline);
  } catch (...) {
    watch_.stop();  // otherwise it would start another worker
    worker_.end(0);
    has_no_worker_ = true;
    narrowing_.reset();
    if (keeping_) keeping_->end();
    throw;
  }
  end_worker(std::max<Nanoseconds>(0, deadline - now_ns()));
  arena_.free_logs();  // the other arrays may have views
}

void Runtime::close() {
  const Nanoseconds deadline = now_ns() + close_timeout_ns_;
  std::exception_ptr failure;
  try {
    if (!ended_) {
      exporting_.let_steps_go(deadline - close_timeout_ns_ / 2);
      end_worker(std::max<Nanoseconds>(0, deadline - now_ns()));
    }
  } catch (...) {
    failure = std::current_exception();
  }
  try {
    exporting_.finish(deadline);
  } catch (...) {
    if (!failure) failure = std::current_exception();
  }
  if (failure) std::rethrow_exception(failure);
}

void Runtime::end_worker(Nanoseconds timeout_ns) {
  watch_.stop();
  const zf_status status = worker_.end(timeout_ns);
  has_no_worker_ = true;
  narrowing_.reset();  // the other side is free
  if (keeping_) keeping_->end();
  const bool nothing_lost = status == ZF_WORKER_DIED && submissions_.all_done();
  if (status == ZF_OK || nothing_lost) return;
  if (status == ZF_WORKER_DIED) throw AbiError(status, worker_.last_exit_reason());
  throw AbiError(status,
                 format_text("the optimizer was killed: it had not finished after {} ms",
                             close_timeout_ns_ / kMillisecondNs),
                 "raise zf_options.close_timeout_ms, or call zf_wait before zf_close");
}

}  // namespace zf
