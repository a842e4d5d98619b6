#include "engine/pool.hpp"

#include <pthread.h>

#include <algorithm>
#include <cassert>
#include <exception>
#include <thread>

#include "base/format.hpp"
#include "base/id_set.hpp"
#include "base/start_thread.hpp"
#include "engine/waitable_counter.hpp"
#include "os/affinity.hpp"

namespace zf {
struct Pool::State {
  // Counters are aligned to line pairs: all members spin on `epoch` while others write `running`.
  WaitableCounter epoch;  ///< raised once for each run, and once to stop the threads
  WaitableCounter
      running;  ///< members other than 0 that have not finished the present run, or have not started

  // Written by member 0 before it raises `epoch`, and read by the others after they have seen that.
  alignas(kLinePair) Erased work = nullptr;
  void* context = nullptr;
  bool stopping = false;

  const Nanoseconds spin_ns;
  std::vector<std::exception_ptr> failures;  ///< exceptions of the start, one per member
  std::vector<std::thread> threads;          ///< members 1..n-1
  CpuSet old_mask;                           ///< of member 0

  explicit State(Nanoseconds spin) : spin_ns(spin) {}
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  ~State() {
    if (!threads.empty()) {
      stopping = true;
      epoch.raise();
      for (std::thread& thread : threads) thread.join();
    }
    try {
      if (!old_mask.empty()) bind_this_thread(old_mask);
    } catch (const std::exception&) {
      // The allocation shrank meanwhile. The kernel has then already moved this thread to the CPUs that are
      // left.
    }
  }

  /// Starts a member on each of these masks.
  void start(const std::vector<CpuSet>& masks) {
    old_mask = thread_affinity();
    bind_this_thread(masks.front());
    failures.resize(masks.size());
    threads.reserve(masks.size() - 1);
    running.set(static_cast<std::uint32_t>(masks.size() - 1));
    for (std::size_t member = 1; member < masks.size(); ++member) {
      threads.push_back(start_thread(format_text("thread {} of {} for the pool", member, masks.size() - 1),
                                     [this, member, mask = masks[member]] { thread_main(member, mask); }));
    }
    running.wait_for_zero(spin_ns);
    for (const std::exception_ptr& failure : failures) {
      if (failure) std::rethrow_exception(failure);
    }
  }

  void thread_main(std::size_t member, const CpuSet& mask) noexcept {
    pthread_setname_np(pthread_self(), format_text("zf-pool-{}", member % 1'000'000).c_str());
    try {
      bind_this_thread(mask);
    } catch (...) {
      failures[member] = std::current_exception();
    }
    running.lower();
    for (std::uint32_t seen = 0;;) {
      seen = epoch.wait_while(seen, spin_ns);
      if (stopping) return;
      work(context, member);
      running.lower();
    }
  }
};

Pool::Pool(const std::vector<Pu>& pus, Nanoseconds spin_ns) : state_(std::make_unique<State>(spin_ns)) {
  assert(!pus.empty());
  assert(spin_ns == 0 || CpuSet(pus).size() == pus.size());
  std::vector<CpuSet> masks;
  for (const Pu pu : pus) masks.push_back({pu});
  state_->start(masks);  // if it throws, ~State ends the threads started so far and restores the mask
}

Pool::Pool(const SharedCpus& shared) : state_(std::make_unique<State>(0)) {
  assert(!shared.cpus.empty() && shared.members > 0);
  state_->start(std::vector<CpuSet>(shared.members, shared.cpus));
}

Pool::~Pool() = default;

std::size_t Pool::size() const { return state_->threads.size() + 1; }

void Pool::run_erased(Erased work, void* context) noexcept {
  State& state = *state_;
  if (!state.threads.empty()) {
    state.work = work;
    state.context = context;
    state.running.set(static_cast<std::uint32_t>(state.threads.size()));
    state.epoch.raise();
  }
  work(context, 0);
  state.running.wait_for_zero(state.spin_ns);
}

}  // namespace zf
