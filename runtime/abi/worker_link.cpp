#include "abi/worker_link.hpp"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <utility>

#include "abi/reaping.hpp"
#include "abi/status.hpp"
#include "base/format.hpp"
#include "ipc/spawn.hpp"

namespace zf {
namespace {

/// The longest time that a process may take to end after SIGKILL. One that takes longer is frozen or hangs in
/// the kernel (uninterruptible sleep), and no thread should wait for it.
constexpr Nanoseconds kGoneNs = kSecondNs * 9 / 10;

/// The pause after a worker that died before it was ready. It doubles with each such death in a row.
constexpr Nanoseconds kFirstPauseNs = kSecondNs / 10;
constexpr Nanoseconds kLongestPauseNs = 10 * kSecondNs;

/// Starts the worker from a thread that outlives it: see ControlBlock::starter.
Child start_worker(const Arena& arena, const WorkerStart& how) {
  arena.control().starter = gettid();
  const FileDescriptor trainer = open_pidfd(getpid());
  try {
    return spawn(how.program, how.arguments,
                 {{arena.fd(), kWorkerArenaFd}, {trainer.get(), kWorkerTrainerFd}}, how.environment);
  } catch (const Error& error) {
    throw AbiError(ZF_ERROR_WORKER, error.what());
  }
}

WorkerState state_of(const Arena& arena) {
  return arena.control().prefix.worker_state.load(std::memory_order_seq_cst);
}

std::string not_ready_text(const WorkerStart& start) {
  return format_text("was not ready after {} ms", start.timeout_ns / kMillisecondNs);
}

const char* hint_of(const ExitStatus& status) {
  return status.signal == SIGKILL ? "if it was not killed on purpose, memory may have run out: look at dmesg "
                                    "and the job's memory limit"
                                  : "";
}

}  // namespace

WorkerLink::WorkerLink(const Arena& arena, WorkerStart start)
    : arena_(arena), start_(std::move(start)), starter_("zf-start") {
  start_process();
  try {
    await_ready();
  } catch (...) {
    kill_and_reap();
    throw;
  }
}

WorkerLink::~WorkerLink() { kill_and_reap(); }

void WorkerLink::kill_and_reap() noexcept {
  try {
    end_process();
  } catch (const Error&) {
    // Its pidfd is lost: it cannot be reached. It ends with the thread that started it.
  }
}

std::optional<ExitStatus> WorkerLink::end_process() {
  if (process_->pid() < 0) return std::nullopt;  // another thread reaps it
  if (process_->end_by(now_ns() + kGoneNs)) return process_->reap();
  reap_later(*std::move(process_));
  return std::nullopt;
}

void WorkerLink::start_process() {
  starter_.run([this] { process_.emplace(start_worker(arena_, start_)); });
  started_ns_ = now_ns();
  pid_.store(process_->pid(), std::memory_order_relaxed);
}

void WorkerLink::await_ready() {
  const auto has_spoken = [this] { return state_of(arena_) != WorkerState::starting; };
  const Answer answer = wait(has_spoken, started_ns_ + start_.timeout_ns, 0);
  if (answer == Answer::happened && state_of(arena_) == WorkerState::ready) return;
  if (answer == Answer::timeout) {
    throw AbiError(ZF_TIMEOUT, format_text("{} {}", start_.program, not_ready_text(start_)),
                   "a large arena takes longer: raise zf_options.start_timeout_ms");
  }
  if (answer == Answer::happened) throw AbiError(ZF_ERROR_WORKER, arena_.control().prefix.error.load());
  throw AbiError(ZF_ERROR_WORKER, last_exit_reason(),
                 exit_status_.code ? "is it the zf-optimizer of this release?" : "");
}

bool WorkerLink::poll_exit() {
  if (is_known_dead()) return true;
  const std::lock_guard lock(mutex_);
  if (!process_->has_ended()) return false;
  const std::optional<ExitStatus> status = end_process();
  exit_status_ = status.value_or(ExitStatus{});
  std::string text = format_text("{} (process {}) {}", start_.program, pid(),
                                 status ? describe(*status) : "has ended, and a debugger holds its status");
  if (const std::string said = arena_.control().prefix.error.load(); !said.empty())
    text += "; it said: " + said;
  if (start_given_up_) text += "; it " + not_ready_text(start_);
  last_exit_reason_ = Error(Exit::runtime_error, text, start_given_up_ ? "" : hint_of(exit_status_)).what();
  plan_restart(now_ns());
  dead_.store(true, std::memory_order_release);
  return true;
}

void WorkerLink::plan_restart(Nanoseconds now) {
  while (!restart_times_.empty() && restart_times_.front() <= now - start_.restart_window_ns)
    restart_times_.pop_front();
  gone_.store(restart_times_.size() >= start_.max_restarts, std::memory_order_release);
  // A worker that has worked is replaced at once. One that dies at its start would die again: give the cause
  // some time to pass.
  const WorkerState state = state_of(arena_);
  const bool was_ready = state == WorkerState::ready || state == WorkerState::left;
  pause_ = was_ready ? 0 : std::clamp(pause_ * 2, kFirstPauseNs, kLongestPauseNs);
  restart_time_ = now + pause_;
}

std::size_t WorkerLink::recent_restarts() {
  const std::lock_guard lock(mutex_);
  return restart_times_.size();
}

Nanoseconds WorkerLink::restart_time() {
  const std::lock_guard lock(mutex_);
  return restart_time_;
}

FileDescriptor WorkerLink::pidfd() {
  const std::lock_guard lock(mutex_);
  return process_->pidfd();
}

std::optional<Nanoseconds> WorkerLink::time_to_be_ready() {
  const std::lock_guard lock(mutex_);
  if (state_of(arena_) != WorkerState::starting) return std::nullopt;
  return started_ns_ + start_.timeout_ns - now_ns();
}

void WorkerLink::give_up_start() {
  const std::lock_guard lock(mutex_);
  if (state_of(arena_) != WorkerState::starting) return;
  start_given_up_ = true;
  process_->kill();
}

std::string WorkerLink::last_exit_reason() {
  const std::lock_guard lock(mutex_);
  return last_exit_reason_;
}

WorkerLink::Restart WorkerLink::restart() {
  const std::lock_guard lock(mutex_);
  if (!is_known_dead()) return Restart::done;
  if (is_gone()) return Restart::never;
  if (now_ns() < restart_time_) return Restart::later;
  ControlBlock& control = arena_.control();
  control.prefix.error.store("");
  control.prefix.worker_state.store(WorkerState::starting, std::memory_order_seq_cst);
  control.work.init();  // the process that slept on it has ended
  start_process();
  start_given_up_ = false;
  restarts_.fetch_add(1, std::memory_order_relaxed);
  restart_times_.push_back(started_ns_);
  dead_.store(false, std::memory_order_release);
  return Restart::done;
}

zf_status WorkerLink::end(Nanoseconds timeout_ns) {
  ControlBlock& control = arena_.control();
  control.stop.store(1, std::memory_order_seq_cst);
  control.work.ring();
  const bool ended_alone = is_known_dead() || process_->wait_until(now_ns() + timeout_ns);
  if (!ended_alone) {
    end_by_force();
    return ZF_TIMEOUT;
  }
  if (!poll_exit()) return ZF_TIMEOUT;
  return state_of(arena_) == WorkerState::left ? ZF_OK : ZF_WORKER_DIED;
}

void WorkerLink::end_by_force() {
  const std::lock_guard lock(mutex_);
  gone_.store(true, std::memory_order_release);
  dead_.store(true, std::memory_order_release);
  const std::optional<ExitStatus> status = end_process();
  last_exit_reason_ = format_text("{} (process {}) {}", start_.program, pid(),
                                  status ? describe(*status) : "was killed and has not ended yet");
}

}  // namespace zf
