#include "runtime.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>

#include "group_settings.hpp"
#include "os/environment.hpp"
#include "plan_binding.hpp"
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

Arena make_arena(const std::vector<zf_group>& groups, std::size_t threads, const Allowed& allowed) {
  std::vector<GroupShape> shapes;
  shapes.reserve(groups.size());
  for (const zf_group& group : groups) shapes.push_back(shape_of(group));
  const ArenaLayout layout = arena_layout(shapes, threads);
  check_memory(layout.bytes, allowed);
  return Arena::create(layout);
}

}  // namespace

/// The parts of a runtime before its worker is started.
struct Runtime::Prepared {
  BoundPlan plan;
  std::string program;
  Nanoseconds start_timeout_ns;
  Nanoseconds close_timeout_ns;
  Nanoseconds spin_ns;
  std::uint32_t max_restarts;
  Arena arena;
};

std::unique_ptr<Runtime> Runtime::open(const zf_options& options, const std::vector<zf_group>& groups) {
  constexpr std::int32_t default_spin_us = 50;
  constexpr std::int32_t max_spin_us = 1'000'000;
  constexpr std::uint32_t default_restarts = 3;
  const Nanoseconds start_ns = timeout_of(options.start_timeout_ms, 120'000, "start_timeout_ms");
  const Nanoseconds close_ns = timeout_of(options.close_timeout_ms, 10'000, "close_timeout_ms");
  const Environment environment = Environment::of_this_process();
  BoundPlan plan = find_binding(options.plan_path, options.rank, environment);
  const Allowed allowed = allowed_to_optimizer();
  check_binding(plan, allowed);
  std::string program = find_worker_program(environment).string();
  const std::int32_t spin_us = options.spin_us < 0 ? default_spin_us : std::min(options.spin_us, max_spin_us);
  // Spinning on the CPU that the other side needs would only keep it from what we wait for.
  const Nanoseconds spin_ns = plan.binding.shared ? 0 : spin_us * Nanoseconds{1000};
  Arena arena = make_arena(groups, plan.binding.optimizer.cpus.size(), allowed);
  arena.control().spin_ns = spin_ns;
  const std::uint32_t restarts = options.max_restarts < 0 ? 0
                                 : options.max_restarts == 0
                                     ? default_restarts
                                     : static_cast<std::uint32_t>(options.max_restarts);
  Prepared prepared{std::move(plan), std::move(program), start_ns,        close_ns,
                    spin_ns,         restarts,           std::move(arena)};
  return std::unique_ptr<Runtime>(new Runtime(std::move(prepared), groups));
}

Runtime::Runtime(Prepared&& prepared, const std::vector<zf_group>& groups)
    : owner_(getpid()),
      close_timeout_ns_(prepared.close_timeout_ns),
      spin_ns_(prepared.spin_ns),
      arena_(std::move(prepared.arena)),
      worker_(arena_, prepared.program, prepared.plan.binding, prepared.start_timeout_ns,
              prepared.max_restarts) {
  for (const zf_group& group : groups) groups_.push_back({.settings = group});
  chosen_.reserve(groups.size());
}

void Runtime::check_process() const {
  if (getpid() == owner_) return;
  throw Refusal(ZF_ERROR_FORKED,
                fmt::format("process {} uses a handle that process {} opened", getpid(), owner_),
                "a forked child opens its own");
}

void Runtime::check_group(std::size_t group) const {
  if (group < groups_.size()) return;
  throw Refusal(ZF_ERROR_USAGE, fmt::format("group {}: there are {}", group, groups_.size()));
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
  check_group(group);
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
  check_group(group);
  const zf_group changed = read_group(settings, group);
  const std::lock_guard lock(mutex_);
  check_same_shape(groups_[group].settings, changed, group);
  groups_[group].settings = changed;
}

std::uint64_t Runtime::submit(const zf_submit_args& args) {
  check_not_ended();
  const std::lock_guard lock(mutex_);
  revive_worker();
  choose_groups(args);
  ControlBlock& control = arena_.control();
  std::uint64_t count = control.submitted.load(std::memory_order_relaxed);
  for (const std::uint32_t group : chosen_) publish(group, args, ++count);
  control.submitted.store(count, std::memory_order_seq_cst);
  control.work.ring();
  return count;
}

void Runtime::choose_groups(const zf_submit_args& args) {
  if (args.buffer >= kGradBuffers)
    throw Refusal(ZF_ERROR_USAGE, fmt::format("buffer is {}; it must be 0 or 1", args.buffer));
  if (!std::isfinite(args.grad_scale))
    throw Refusal(ZF_ERROR_USAGE, fmt::format("grad_scale is {}", args.grad_scale), "skip the step instead");
  if (args.groups == nullptr && args.n_groups != 0)
    throw Refusal(ZF_ERROR_USAGE, fmt::format("groups is NULL, and n_groups {}", args.n_groups));
  chosen_.clear();
  if (args.groups != nullptr) {
    if (args.n_groups > groups_.size())
      throw Refusal(ZF_ERROR_USAGE,
                    fmt::format("n_groups is {}; there are {}", args.n_groups, groups_.size()));
    chosen_.assign(args.groups, args.groups + args.n_groups);
  } else {
    chosen_.resize(groups_.size());
    std::iota(chosen_.begin(), chosen_.end(), 0U);
  }
  ++calls_;
  const std::uint64_t completed = arena_.control().completed.load(std::memory_order_seq_cst);
  for (const std::uint32_t index : chosen_) {
    check_group(index);
    Group& group = groups_[index];
    if (std::exchange(group.chosen_by, calls_) == calls_)
      throw Refusal(ZF_ERROR_USAGE, fmt::format("group {} is named twice", index));
    if (group.tickets[args.buffer] > completed) {
      throw Refusal(ZF_ERROR_BUSY,
                    fmt::format("group {}: gradient buffer {} is still being read", index, args.buffer),
                    "zf_wait for its last submission, or use the other buffer");
    }
  }
}

void Runtime::publish(std::uint32_t index, const zf_submit_args& args, std::uint64_t ticket) {
  Group& group = groups_[index];
  group.tickets[args.buffer] = ticket;
  arena_.group(index).requests[args.buffer] = {
      .lr = group.settings.lr,
      .beta1 = group.settings.beta1,
      .beta2 = group.settings.beta2,
      .eps = group.settings.eps,
      .weight_decay = group.settings.weight_decay,
      .grad_scale = args.grad_scale,
      .adamw = group.settings.mode == ZF_ADAMW ? 1U : 0U,
      .bias_correction = group.settings.bias_correction != 0 ? 1U : 0U,
      .step = args.step,
      .serial = ++group.serial};
  arena_.entry(ticket - 1) = {.group = index, .buffer = args.buffer};
}

bool Runtime::wait(std::uint64_t ticket, std::int64_t timeout_ms) {
  check_not_ended();
  const std::uint64_t submitted = arena_.control().submitted.load(std::memory_order_seq_cst);
  if (ticket > submitted)
    throw Refusal(ZF_ERROR_USAGE, fmt::format("ticket {}: the last one is {}", ticket, submitted));
  const std::int64_t limit_ms = timeout_ms < 0 ? kForeverMs : std::min(timeout_ms, kForeverMs);
  return await(ticket == 0 ? submitted : ticket, now_ns() + limit_ms * kMillisecondNs);
}

bool Runtime::await(std::uint64_t ticket, Nanoseconds deadline) {
  ControlBlock& control = arena_.control();
  const auto is_done = [&] { return control.completed.load(std::memory_order_seq_cst) >= ticket; };
  if (is_done()) return true;

  if (has_waiter_.exchange(true))
    throw Refusal(ZF_ERROR_BUSY, "another thread is in zf_wait", "one at a time");
  const struct Leaving {
    std::atomic<bool>& flag;
    ~Leaving() { flag.store(false); }
  } leaving{has_waiter_};
  for (;;) {
    const auto answer = worker_.wait(is_done, deadline, spin_ns_);
    if (answer != WorkerLink::Answer::died) return answer == WorkerLink::Answer::happened;
    const std::lock_guard lock(mutex_);
    revive_worker();
  }
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
  stats.restarts = worker_.restarts();
  const std::string death = worker_.cause();
  std::memcpy(stats.last_death, death.data(), std::min(death.size(), sizeof stats.last_death - 1));
  return stats;
}

void Runtime::end() {
  if (ended_.exchange(true)) return;
  const Nanoseconds deadline = now_ns() + close_timeout_ns_;
  await(arena_.control().submitted.load(std::memory_order_seq_cst), deadline);
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
