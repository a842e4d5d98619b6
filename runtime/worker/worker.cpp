#include "worker/worker.hpp"

#include <csignal>
#include <memory>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/file_descriptor.hpp"
#include "engine/isa.hpp"
#include "engine/pool.hpp"
#include "os/affinity.hpp"
#include "worker/placement.hpp"
#include "worker/pool_cpus.hpp"
#include "worker/stepper.hpp"
#include "worker/trainer_watch.hpp"

namespace zf {
namespace {

/// The longest time that the worker of a trainer that was killed may take to end.
constexpr Nanoseconds kPredecessorNs = 10 * kSecondNs;

/// Ignores signals that are sent to a whole job: Ctrl-C, `timeout`, Slurm's warning before the time limit.
/// They are meant for the trainer, which may want to finish its step and write a checkpoint. The worker ends
/// when the trainer ends.
void leave_signals_to_trainer() {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGPIPE}) std::signal(signal, SIG_IGN);
}

void tell_state(Arena& arena, WorkerState state) {
  arena.control().prefix.worker_state.store(state, std::memory_order_seq_cst);
  arena.control().done.ring();
}

/// Returns what this process may use. It inherited the trainer's mask, which says nothing about that. Without
/// an answer the plan is tried as it is.
CpuSet usable_cpus(const WorkerArguments& arguments) {
  return widest_thread_affinity().value_or(arguments.cpus);
}

/// Finds the pool's CPUs among those that this process may use, and binds this thread to them.
PoolCpus find_pool_cpus(const WorkerArguments& arguments) {
  const CpuSet usable = usable_cpus(arguments);
  PoolCpus placed = arguments.threads == 0 ? place_pool(arguments.cpus, arguments.home, usable)
                                           : place_shared_pool(arguments.cpus, arguments.home, usable,
                                                               static_cast<std::size_t>(arguments.threads));
  bind_this_thread(placed.cpus);
  return placed;
}

/// The pool, and what became of its CPUs.
struct PlacedPool {
  PoolCpus cpus;
  Nanoseconds spin_ns = 0;  ///< of the thread that waits for work
  std::unique_ptr<Pool> pool;
};

PlacedPool start_pool(const WorkerArguments& arguments, Nanoseconds spin_ns) {
  PlacedPool placed = {.cpus = find_pool_cpus(arguments), .pool = nullptr};
  if (arguments.threads > 0) {  // none spins on CPUs of neighbours
    placed.pool =
        std::make_unique<Pool>(SharedCpus{placed.cpus.cpus, static_cast<std::size_t>(arguments.threads)});
    return placed;
  }
  // Threads that share a CPU with each other, or with training, must not spin there. A lower priority for
  // them was tried and lost. Beside training on the same CPUs, the median period was 87 ms, 89 ms with nice 5
  // and 99 ms with nice 10 (one CPU), or 157, 152 and 168 ms (two CPUs), with quartiles 10 to 75 ms apart
  // (virtual machine, AMD EPYC, 2 CPUs, with other load).
  placed.spin_ns = placed.cpus.lost.empty() ? spin_ns : 0;
  placed.pool = std::make_unique<Pool>(placed.cpus.of_thread, placed.spin_ns == 0 ? 0 : kSpinNs);
  return placed;
}

/// Calls look_and_bind() again if it throws: a CPU may leave between the look and the binding.
template <class LookAndBind>
auto retried(LookAndBind look_and_bind) {
  for (int left = 4; left != 0; --left) {
    try {
      return look_and_bind();
    } catch (const Error&) {
      // The next look finds the CPUs that are left. If the cause is another one, the last try reports it.
    }
  }
  return look_and_bind();
}

}  // namespace

void work(Arena& arena, const WorkerArguments& arguments, Nanoseconds born_ns) {
  WorkerStats& stats = arena.control().stats;
  leave_signals_to_trainer();
  // The worker of a trainer that has just died may still run. It has the lock before it looks for its
  // trainer, so that it ends, or keeps us waiting.
  if (arena.control().is_kept != 0 && !arena.lock_for_worker(now_ns() + kPredecessorNs))
    throw Error(Exit::runtime_error, "another optimizer still uses the kept arena",
                "`ps -C zf-optimizer` shows it");
  end_with_starter(arena.control().starter);
  retried([&] { return find_pool_cpus(arguments); });  // for the mask of the watching thread
  watch_trainer(FileDescriptor(kWorkerTrainerFd));
  Notes notes = prepare_memory(arena, arguments);
  const Isa isa = chosen_isa();
  const PlacedPool placed = retried([&] { return start_pool(arguments, arena.control().spin_ns); });
  Stepper stepper(arena, *placed.pool, isa);
  stepper.place_memory();
  settle_memory(arena, arguments, std::move(notes));

  stats.threads = static_cast<std::uint32_t>(placed.pool->size());
  stats.lost_cpus = static_cast<std::uint32_t>(placed.cpus.lost.size());
  stats.cpu_note.store(placed.cpus.note);
  stats.isa.store(name_of(isa));
  stats.start_ns.store(static_cast<std::uint64_t>(now_ns() - born_ns), std::memory_order_relaxed);
  tell_state(arena, WorkerState::ready);
  stepper.serve(placed.spin_ns);
  tell_state(arena, WorkerState::left);
}

void report_failure(Arena& arena, std::string_view what) {
  arena.control().prefix.error.store(what);
  tell_state(arena, WorkerState::failed);
}

}  // namespace zf
