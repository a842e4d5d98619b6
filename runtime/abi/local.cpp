// The C functions of steps in place.
#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "abi/local_steps.hpp"
#include "abi/plan_binding.hpp"
#include "abi/readings.hpp"
#include "abi/status.hpp"
#include "abi/versioned.hpp"
#include "base/format.hpp"
#include "base/text.hpp"
#include "ipc/control_block.hpp"
#include "local/local_stepper.hpp"
#include "os/affinity.hpp"
#include "zf_runtime.h"

// A release never changes these layouts. It only adds members at the end.
static_assert(sizeof(zf_local_options) == 32 && offsetof(zf_local_options, plan_path) == 8 &&
              offsetof(zf_local_options, rank) == 16 && offsetof(zf_local_options, use_openmp) == 24);
static_assert(sizeof(zf_local_step_args) == 72 && offsetof(zf_local_step_args, tensors) == 16 &&
              offsetof(zf_local_step_args, scalar_count) == 40 &&
              offsetof(zf_local_step_args, counters) == 48 && offsetof(zf_local_step_args, ranges) == 56);
static_assert(sizeof(zf_local_statistics) == 672 && offsetof(zf_local_statistics, openmp) == 40 &&
              offsetof(zf_local_statistics, steps) == 240 && offsetof(zf_local_statistics, plan_note) == 472);

namespace zf {
namespace {

// The sizes of the first version of each struct.
constexpr std::size_t kFirstOptionsBytes = 32;
constexpr std::size_t kFirstStepArgsBytes = 72;

/// What a handle has in one process. Any thread may hold the mutex, or be in the list, when the process
/// forks.
struct HandleInProcess {
  const ProcessId process;
  std::mutex note_mutex = {};
  FixedText<200> memory_note = {};
  StepList list = {};  ///< used in the engine's turns alone
};

/// What a zf_local points to.
class LocalHandle {
 public:
  LocalHandle(const TeamWish& team, const MemoryWish& memory, std::string_view plan_note)
      : team_(team), memory_(memory) {
    plan_note_.store(plan_note);
    here();
    LocalStepper::of_this_process().add_handle();
  }
  ~LocalHandle() {
    LocalStepper::remove_handle();
    HandleInProcess* const last = here_.load(std::memory_order_acquire);
    if (last != nullptr && last->process == this_process()) delete last;
  }
  LocalHandle(const LocalHandle&) = delete;
  LocalHandle& operator=(const LocalHandle&) = delete;

  void step(const zf_local_step_args& args);
  void read(const ReadingList& list);
  void place(void* pointer, std::size_t bytes);
  zf_local_statistics statistics();

 private:
  const TeamWish team_;
  const MemoryWish memory_;
  FixedText<200> plan_note_;
  /// Returns that of this process. A child begins anew, and leaves its parent's as it was at the fork.
  HandleInProcess& here() {
    const ProcessId process = this_process();
    HandleInProcess* current = here_.load(std::memory_order_acquire);
    while (current == nullptr || current->process != process) {
      std::unique_ptr<HandleInProcess> next(new HandleInProcess{process});
      next->memory_note.store("");
      if (here_.compare_exchange_strong(current, next.get(), std::memory_order_acq_rel))
        current = next.release();
    }
    return *current;
  }

  std::atomic<HandleInProcess*> here_ = nullptr;
};

LocalHandle& handle_of(zf_local* handle) {
  if (handle == nullptr) throw AbiError(ZF_ERROR_USAGE, "the handle is NULL");
  return *reinterpret_cast<LocalHandle*>(handle);
}

void LocalHandle::step(const zf_local_step_args& args) {
  LocalStepper& stepper = LocalStepper::of_this_process();
  stepper.step(here().list, team_, [&](std::vector<TensorStep>& steps, std::vector<float*>& counters) {
    fill_steps(args, stepper.isa(), steps, counters, here().list.ranges);
  });
}

void LocalHandle::read(const ReadingList& list) {
  std::vector<Reading> readings = read_readings(list);
  LocalStepper& stepper = LocalStepper::of_this_process();
  if ((list.what & ZF_READ_ALONE) != 0) {
    stepper.read_alone(readings, wish_of(list));
  } else {
    stepper.read(readings, wish_of(list), team_);
  }
  write_results(readings, list);
}

void LocalHandle::place(void* pointer, std::size_t bytes) {
  if (bytes == 0) return;
  if (pointer == nullptr) throw AbiError(ZF_ERROR_USAGE, "pointer is NULL");
  if (reinterpret_cast<std::uintptr_t>(pointer) + bytes < bytes)
    throw AbiError(ZF_ERROR_USAGE, format_text("bytes is {}", bytes));
  const std::string note = LocalStepper::of_this_process().place(team_, memory_, pointer, bytes);
  if (note.empty()) return;
  HandleInProcess& ours = here();
  const std::lock_guard lock(ours.note_mutex);
  ours.memory_note.store(note);
}

zf_local_statistics LocalHandle::statistics() {
  zf_local_statistics filled = ZF_LOCAL_STATISTICS_INIT;
  LocalStepper& stepper = LocalStepper::of_this_process();
  const LocalFigures figures = stepper.figures();
  const LocalStepper::NextTeam next = stepper.next_team(team_);
  filled.threads = static_cast<std::uint32_t>(next.threads);
  copy_text(figures.steps == 0 ? next.name : figures.team, filled.team);
  copy_text(name_of(stepper.isa()), filled.isa);
  copy_text(stepper.openmp_path(), filled.openmp);
  filled.steps = figures.steps;
  filled.last_step_ns = figures.last_step_ns;
  filled.total_step_ns = figures.total_step_ns;
  filled.last_threads = static_cast<std::uint32_t>(figures.last_threads);
  filled.stolen = static_cast<std::uint32_t>(figures.stolen);
  copy_text(plan_note_.load(), filled.plan_note);
  HandleInProcess& ours = here();
  const std::lock_guard lock(ours.note_mutex);
  copy_text(ours.memory_note.load(), filled.memory_note);
  return filled;
}

zf_local_options read_options(const zf_local_options* given) {
  static constexpr zf_local_options defaults = ZF_LOCAL_OPTIONS_INIT;
  if (given == nullptr) return defaults;
  const zf_local_options options = read_versioned(given, defaults, kFirstOptionsBytes, "zf_local_options");
  check_abi_version(options.abi_version);
  constexpr std::uint32_t most_threads = 4096;
  if (options.threads > most_threads) {
    throw AbiError(ZF_ERROR_USAGE,
                   format_text("threads is {}; it must be {} or less", options.threads, most_threads));
  }
  if (options.use_openmp < ZF_NO || options.use_openmp > ZF_MUST) {
    throw AbiError(ZF_ERROR_USAGE,
                   format_text("use_openmp is {}; it must be ZF_NO, ZF_TRY or ZF_MUST", options.use_openmp));
  }
  if (options.reserved != 0)
    throw AbiError(ZF_ERROR_USAGE, format_text("reserved is {}; it must be 0", options.reserved));
  return options;
}

/// Returns the CPUs that this process has under a plan. OpenMP may have bound the calling thread to fewer.
CpuSet cpus_of_process(const BoundPlan& plan) {
  switch (plan.started_on) {
    case StartedOn::home:
      return plan.binding.home.cpus;
    case StartedOn::training:
      return plan.binding.training.cpus;
    case StartedOn::nothing:
      break;
  }
  return thread_affinity();
}

/// Returns the wish for a team under the binding of a plan. Where neighbours share the CPUs, a thread on each
/// of them would be more than the CPU quota pays for.
TeamWish team_under(const BoundPlan& plan, TeamWish wish) {
  if (!plan.binding.optimizer.threads) return wish;
  const int paid =
      plan.started_on == StartedOn::training ? plan.binding.training.threads : plan.binding.home.threads;
  if (wish.threads == 0) wish.threads = static_cast<std::size_t>(paid);
  wish.shares_cpus = true;
  return wish;
}

std::unique_ptr<LocalHandle> open_local(const zf_local_options& options) {
  MemoryWish memory;
  std::string plan_note;
  TeamWish team{.openmp = options.use_openmp != ZF_NO, .threads = options.threads};
  const Environment environment = Environment::of_this_process();
  if (const auto plan = find_binding_if_any(options.plan_path, options.rank, environment)) {
    check_binding(*plan, allowed_to_optimizer());
    memory = {plan->binding.optimizer.mems, plan->binding.optimizer.memory_policy};
    plan_note = idle_pool_note(plan->binding, cpus_of_process(*plan));
    team = team_under(*plan, team);
  }
  auto handle = std::make_unique<LocalHandle>(team, memory, plan_note);
  if (options.use_openmp == ZF_MUST && LocalStepper::of_this_process().openmp_path().empty()) {
    throw AbiError(ZF_ERROR_SYSTEM, "this process has loaded no OpenMP runtime with GOMP_parallel",
                   "import torch first, or set zf_local_options.use_openmp to ZF_TRY");
  }
  return handle;
}

}  // namespace
}  // namespace zf

extern "C" {

zf_status zf_local_open(const zf_local_options* options, zf_local** out) {
  if (out != nullptr) *out = nullptr;
  return zf::guarded([&] {
    zf::required(out, "out");
    *out = reinterpret_cast<zf_local*>(zf::open_local(zf::read_options(options)).release());
  });
}

zf_status zf_local_step(zf_local* handle, const zf_local_step_args* args) {
  return zf::guarded([&] {
    zf::LocalHandle& ours = zf::handle_of(handle);
    static constexpr zf_local_step_args defaults = ZF_LOCAL_STEP_ARGS_INIT;
    const zf_local_step_args read = zf::read_versioned(zf::required(args, "args"), defaults,
                                                       zf::kFirstStepArgsBytes, "zf_local_step_args");
    zf::check_step_lists(read);
    ours.step(read);
  });
}

zf_status zf_local_read(zf_local* handle, zf_reading* readings, size_t count, uint32_t reading_size,
                        uint32_t what) {
  return zf::guarded([&] { zf::handle_of(handle).read({readings, count, reading_size, what}); });
}

zf_status zf_local_place(zf_local* handle, void* pointer, size_t bytes) {
  return zf::guarded([&] { zf::handle_of(handle).place(pointer, bytes); });
}

zf_status zf_call_each(void* (*get)(void* list, ptrdiff_t index), void* list, void* (*function)(void* object),
                       void** results, size_t count) {
  return zf::guarded([&] {
    zf::required(get, "get");
    zf::required(function, "function");
    if (count != 0) zf::required(results, "results");
    for (std::size_t i = 0; i < count; ++i) results[i] = function(get(list, static_cast<ptrdiff_t>(i)));
  });
}

zf_status zf_local_stats(zf_local* handle, zf_local_statistics* statistics) {
  return zf::guarded([&] {
    const zf_local_statistics filled = zf::handle_of(handle).statistics();
    zf::write_versioned(filled, zf::required(statistics, "statistics"), "zf_local_statistics");
  });
}

zf_status zf_local_close(zf_local* handle) {
  if (handle == nullptr) return ZF_OK;
  return zf::guarded([&] { const std::unique_ptr<zf::LocalHandle> closed(&zf::handle_of(handle)); });
}

}  // extern "C"
