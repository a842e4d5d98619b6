#include "worker/worker.hpp"

#include <csignal>
#include <utility>
#include <vector>

#include "base/file_descriptor.hpp"
#include "engine/isa.hpp"
#include "engine/pool.hpp"
#include "os/affinity.hpp"
#include "worker/placement.hpp"
#include "worker/stepper.hpp"
#include "worker/trainer_watch.hpp"

namespace zf {
namespace {

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

}  // namespace

void work(Arena& arena, const WorkerArguments& arguments, Nanoseconds born_ns) {
  WorkerStats& stats = arena.control().stats;
  leave_signals_to_trainer();
  bind_this_thread(arguments.cpus);  // the process inherited the trainer's mask
  watch_trainer(FileDescriptor(kWorkerTrainerFd));
  Notes notes = prepare_memory(arena, arguments);
  const Isa isa = chosen_isa();
  Pool pool(std::vector<Pu>(arguments.cpus.begin(), arguments.cpus.end()));
  Stepper stepper(arena, pool, isa);
  stepper.place_memory();
  settle_memory(arena, arguments, std::move(notes));

  stats.threads = static_cast<std::uint32_t>(pool.size());
  stats.isa.store(name_of(isa));
  stats.start_ns.store(static_cast<std::uint64_t>(now_ns() - born_ns), std::memory_order_relaxed);
  tell_state(arena, WorkerState::ready);
  stepper.serve();
  tell_state(arena, WorkerState::left);
}

void report_failure(Arena& arena, std::string_view what) {
  arena.control().prefix.error.store(what);
  tell_state(arena, WorkerState::failed);
}

}  // namespace zf
