#include "runtime.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "base/cpu_list.hpp"
#include "group_settings.hpp"
#include "os/environment.hpp"
#include "plan_binding.hpp"
#include "state_file.hpp"
#include "status.hpp"
#include "worker_program.hpp"

namespace zf {
namespace {

constexpr std::int64_t kMillisecondNs = 1'000'000;
constexpr std::int64_t kForeverMs = std::int64_t{1000} * 60 * 60 * 24 * 365;

/// `value`, or `default_ms` for 0, as nanoseconds.
Nanoseconds timeout_of(std::int64_t value_ms, std::int64_t default_ms, std::string_view field) {
  if (value_ms < 0)
    throw Refusal(ZF_ERROR_USAGE, fmt::format("{} is {}; it must be 0 or more", field, value_ms));
  return std::min(value_ms == 0 ? default_ms : value_ms, kForeverMs) * kMillisecondNs;
}

const char* wish_of(std::int32_t value, std::string_view field) {
  switch (value) {
    case ZF_NO:
      return "no";
    case ZF_TRY:
      return "try";
    case ZF_MUST:
      return "must";
    default:
      throw Refusal(ZF_ERROR_USAGE,
                    fmt::format("{} is {}; it must be ZF_NO, ZF_TRY or ZF_MUST", field, value));
  }
}

/// The worker's command line.
std::vector<std::string> worker_arguments(const RankBinding& binding, const zf_options& options) {
  std::vector<std::string> words = {"--rank",        std::to_string(binding.rank),
                                    "--cpus",        print(binding.optimizer.cpus),
                                    "--huge-pages",  wish_of(options.huge_pages, "huge_pages"),
                                    "--lock-memory", wish_of(options.lock_memory, "lock_memory")};
  if (!binding.optimizer.mems.empty()) {
    const bool bind = binding.optimizer.memory_policy == MemoryPolicy::bind;
    words.insert(words.end(),
                 {"--mems", print(binding.optimizer.mems), "--memory-policy", bind ? "bind" : "preferred"});
  }
  return words;
}

/// The end of a wait: 0 only asks, negative is for ever.
Nanoseconds deadline_of(std::int64_t timeout_ms) {
  return now_ns() + (timeout_ms < 0 ? kForeverMs : std::min(timeout_ms, kForeverMs)) * kMillisecondNs;
}

Arena make_arena(const std::vector<zf_group>& groups, std::uint64_t chunk_bytes, std::size_t threads,
                 const Allowed& allowed) {
  std::vector<GroupShape> shapes;
  shapes.reserve(groups.size());
  for (const zf_group& group : groups) {
    shapes.push_back(shape_of(group));
    if (chunk_bytes != 0) shapes.back().chunk_bytes = chunk_bytes;
  }
  const ArenaLayout layout = arena_layout(shapes, threads);
  check_memory(layout.bytes, allowed);
  return Arena::create(layout);
}

}  // namespace

/// The parts of a runtime before its worker is started.
struct Runtime::Prepared {
  WorkerStart start;
  Nanoseconds close_timeout_ns;
  Nanoseconds spin_ns;
  Arena arena;
};

std::unique_ptr<Runtime> Runtime::open(const zf_options& options, const std::vector<zf_group>& groups) {
  constexpr std::int32_t default_spin_us = 50;
  constexpr std::int32_t max_spin_us = 1'000'000;
  constexpr std::uint32_t default_restarts = 3;
  const Nanoseconds start_ns = timeout_of(options.start_timeout_ms, 120'000, "start_timeout_ms");
  const Nanoseconds close_ns = timeout_of(options.close_timeout_ms, 10'000, "close_timeout_ms");
  const Environment environment = Environment::of_this_process();
  const BoundPlan plan = find_binding(options.plan_path, options.rank, environment);
  const Allowed allowed = allowed_to_optimizer();
  check_binding(plan, allowed);
  WorkerStart start = {.program = find_worker_program(environment).string(),
                       .arguments = worker_arguments(plan.binding, options),
                       .timeout_ns = start_ns,
                       .max_restarts = options.max_restarts < 0 ? 0
                                       : options.max_restarts == 0
                                           ? default_restarts
                                           : static_cast<std::uint32_t>(options.max_restarts)};
  const std::int32_t spin_us = options.spin_us < 0 ? default_spin_us : std::min(options.spin_us, max_spin_us);
  // Spinning on the CPU that the other side needs would only keep it from what we wait for.
  const Nanoseconds spin_ns = plan.binding.shared ? 0 : spin_us * Nanoseconds{1000};
  Arena arena = make_arena(groups, options.chunk_bytes, plan.binding.optimizer.cpus.size(), allowed);
  arena.control().spin_ns = spin_ns;
  Prepared prepared{std::move(start), close_ns, spin_ns, std::move(arena)};
  return std::unique_ptr<Runtime>(new Runtime(std::move(prepared), groups));
}

Runtime::Runtime(Prepared&& prepared, const std::vector<zf_group>& groups)
    : owner_(getpid()),
      close_timeout_ns_(prepared.close_timeout_ns),
      spin_ns_(prepared.spin_ns),
      arena_(std::move(prepared.arena)),
      worker_(arena_, std::move(prepared.start)),
      submissions_(arena_, groups) {}

void Runtime::check_process() const {
  if (getpid() == owner_) return;
  throw Refusal(ZF_ERROR_FORKED,
                fmt::format("process {} uses a handle that process {} opened", getpid(), owner_),
                "a forked child opens its own");
}

void Runtime::check_not_ended() const {
  if (ended_) throw Refusal(ZF_ERROR_USAGE, "the optimizer was ended by zf_end", "open another");
}

void Runtime::revive_worker() {
  if (!worker_.is_known_dead() || worker_.revive()) return;
  const std::uint32_t restarts = worker_.restarts();
  throw Refusal(ZF_WORKER_DIED, restarts == 0 ? worker_.cause()
                                              : fmt::format("{}; it has been started again {} times",
                                                            worker_.cause(), restarts));
}

void Runtime::buffer(std::size_t group, zf_buffer_kind kind, void** pointer, std::size_t* bytes) const {
  submissions_.check_group(group);
  const auto index = static_cast<std::size_t>(kind);
  const bool asked_for = kind == ZF_STALE  ? arena_.group(group).has_stale()
                         : kind == ZF_COPY ? arena_.group(group).copy_type != ElementType::none
                                           : index < kArrayKinds;
  if (!asked_for) {
    throw Refusal(ZF_ERROR_USAGE, fmt::format("group {} has no buffer of kind {}", group, index),
                  "ZF_STALE and ZF_COPY exist when zf_group asked for them at zf_open");
  }
  const ArrayPlace& place = arena_.group(group).arrays[index];
  *pointer = arena_.at<void>(place.offset);
  if (bytes != nullptr) *bytes = place.bytes;
}

void Runtime::set_group(std::size_t group, const zf_group* settings) {
  const std::lock_guard lock(mutex_);
  submissions_.set_group(group, settings);
}

std::uint64_t Runtime::submit(const zf_submit_args& args) {
  check_not_ended();
  const std::lock_guard lock(mutex_);
  revive_worker();
  return submissions_.submit(args);
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
  const auto are_enough = [&] { return (*elements = elements_done(arena_, group, step)) >= wanted; };
  return await(are_enough, deadline_of(timeout_ms));
}

void Runtime::norm(std::size_t group, std::uint32_t buffer, double* sum_of_squares, std::int32_t* finite) {
  submissions_.check_group(group);
  if (buffer >= kGradBuffers)
    throw Refusal(ZF_ERROR_USAGE, fmt::format("buffer is {}; it must be 0 or 1", buffer));
  const GroupNorm& found = arena_.group(group).norms[buffer];
  *sum_of_squares = found.sum_of_squares;
  *finite = found.finite != 0 ? 1 : 0;
}

std::uint64_t Runtime::known_ticket(std::uint64_t ticket) const {
  const std::uint64_t submitted = submissions_.submitted();
  if (ticket > submitted)
    throw Refusal(ZF_ERROR_USAGE, fmt::format("ticket {}: the last one is {}", ticket, submitted));
  return ticket == 0 ? submitted : ticket;
}

template <class Happened>
bool Runtime::await(Happened happened, Nanoseconds deadline) {
  if (happened()) return true;
  if (has_waiter_.exchange(true))
    throw Refusal(ZF_ERROR_BUSY, "another thread is in zf_wait or zf_progress", "one at a time");
  const struct Leaving {
    std::atomic<bool>& flag;
    ~Leaving() { flag.store(false); }
  } leaving{has_waiter_};
  for (;;) {
    const auto answer = worker_.wait(happened, deadline, spin_ns_);
    if (answer != WorkerLink::Answer::died) return answer == WorkerLink::Answer::happened;
    const std::lock_guard lock(mutex_);
    revive_worker();
  }
}

bool Runtime::await_ticket(std::uint64_t ticket, Nanoseconds deadline) {
  const auto is_done = [&] { return arena_.control().completed.load(std::memory_order_seq_cst) >= ticket; };
  return await(is_done, deadline);
}

void Runtime::check_all_done() const {
  if (!submissions_.all_done()) throw Refusal(ZF_ERROR_BUSY, "steps are under way", "zf_wait for them first");
}

std::uint64_t Runtime::step(std::size_t group) {
  submissions_.check_group(group);
  const std::lock_guard lock(mutex_);
  check_all_done();
  return last_progress(arena_.group(group)).step;
}

void Runtime::set_step(std::size_t group, std::uint64_t step) {
  submissions_.check_group(group);
  const std::lock_guard lock(mutex_);
  check_all_done();
  // Powers of no betas: the next step calculates its own from its number.
  last_progress(arena_.group(group)) = {
      .step = step, .beta1 = 0, .beta2 = 0, .beta1_power = 1, .beta2_power = 1};
}

void Runtime::export_state(const char* path) {
  const std::lock_guard lock(mutex_);
  check_all_done();
  write_state(path, arena_, submissions_);
}

void Runtime::import_state(const char* path) {
  const std::lock_guard lock(mutex_);
  check_all_done();
  read_state(path, arena_, submissions_);
}

zf_stats Runtime::stats() {
  const ControlBlock& control = arena_.control();
  const WorkerStats& worker = control.stats;
  zf_stats stats = ZF_STATS_INIT;
  stats.worker_pid = worker_.pid();
  stats.threads = worker.threads;
  stats.worker_alive = worker_.look() ? 0 : 1;
  stats.arena_bytes = control.arena_bytes;
  stats.submitted = control.submitted.load(std::memory_order_seq_cst);
  stats.completed = control.completed.load(std::memory_order_seq_cst);
  stats.batches = worker.batches.load(std::memory_order_relaxed);
  stats.last_step_ns = worker.last_step_ns.load(std::memory_order_relaxed);
  stats.total_step_ns = worker.total_step_ns.load(std::memory_order_relaxed);
  stats.start_ns = worker.start_ns.load(std::memory_order_relaxed);
  static_assert(sizeof stats.isa == sizeof worker.isa &&
                sizeof stats.memory_note == sizeof worker.memory_note);
  std::memcpy(stats.isa, worker.isa.bytes.data(), sizeof stats.isa);
  std::memcpy(stats.memory_note, worker.memory_note.bytes.data(), sizeof stats.memory_note);
  stats.pages_on_plan = worker.placement.pages_on_plan;
  stats.pages_elsewhere = worker.placement.pages_elsewhere;
  stats.pages_absent = worker.placement.pages_absent;
  stats.huge_bytes = worker.placement.huge_bytes;
  stats.locked_bytes = worker.placement.locked_bytes;
  stats.restarts = worker_.restarts();
  const std::string death = worker_.cause();
  std::memcpy(stats.last_death, death.data(), std::min(death.size(), sizeof stats.last_death - 1));
  return stats;
}

void Runtime::end() {
  if (ended_.exchange(true)) return;
  const Nanoseconds deadline = now_ns() + close_timeout_ns_;
  await_ticket(submissions_.submitted(), deadline);
  end_worker(std::max<Nanoseconds>(0, deadline - now_ns()));
}

void Runtime::close() {
  if (!ended_) end_worker(close_timeout_ns_);
}

void Runtime::end_worker(Nanoseconds timeout_ns) {
  const zf_status status = worker_.end(timeout_ns);
  if (status == ZF_OK) return;
  if (status == ZF_WORKER_DIED) throw Refusal(status, worker_.cause());
  throw Refusal(status,
                fmt::format("the optimizer was killed: it had not finished after {} ms",
                            close_timeout_ns_ / kMillisecondNs),
                "raise zf_options.close_timeout_ms, or zf_wait before zf_close");
}

}  // namespace zf
