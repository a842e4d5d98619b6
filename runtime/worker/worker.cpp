#include "worker/worker.hpp"

#include <csignal>
#include <utility>
#include <vector>

#include "base/file_descriptor.hpp"
#include "engine/isa.hpp"
#include "engine/pool.hpp"
#include "os/affinity.hpp"
#include "os/memory.hpp"
#include "worker/stepper.hpp"
#include "worker/trainer_watch.hpp"

namespace zf {
namespace {

/// What is sent to a whole job is meant for the trainer, which may want to finish its step and write a
/// checkpoint: Ctrl-C, `timeout`, Slurm's warning before the limit. We end when it ends.
void leave_signals_to_trainer() {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGPIPE}) std::signal(signal, SIG_IGN);
}

/// For the threads made from here on, and for the arrays: none of them has a page yet. A refusal leaves it
/// to first touch.
PolicyRefusal set_memory_policy(Arena& arena, const WorkerArguments& arguments) {
  if (arguments.mems.empty()) return std::nullopt;
  PolicyRefusal thread = set_thread_memory_policy(arguments.memory_policy, arguments.mems);
  const std::uint64_t start = arena.control().arrays_offset;
  if (start == arena.bytes()) return thread;
  PolicyRefusal range = set_range_memory_policy(arguments.memory_policy, arguments.mems,
                                                arena.at<std::byte>(start), arena.bytes() - start);
  return thread ? thread : range;
}

void tell_state(Arena& arena, WorkerState state) {
  arena.control().prefix.worker_state.store(state, std::memory_order_seq_cst);
  arena.control().done.ring();
}

}  // namespace

void work(Arena& arena, const WorkerArguments& arguments, Nanoseconds born_ns) {
  WorkerStats& stats = arena.control().stats;
  leave_signals_to_trainer();
  bind_this_thread(arguments.cpus);  // we were born with the trainer's mask
  watch_trainer(FileDescriptor(kWorkerTrainerFd));
  const PolicyRefusal refusal = set_memory_policy(arena, arguments);
  const Isa isa = chosen_isa();
  Pool pool(std::vector<Pu>(arguments.cpus.begin(), arguments.cpus.end()));
  Stepper stepper(arena, pool, isa);
  stepper.place_memory();

  stats.threads = static_cast<std::uint32_t>(pool.size());
  stats.isa.store(name_of(isa));
  stats.memory_note.store(refusal.value_or(""));
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
