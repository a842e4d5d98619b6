#include "measure/compute_team.hpp"

#include <cassert>
#include <ctime>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "base/error.hpp"
#include "base/format.hpp"
#include "base/wait.hpp"
#include "engine/waitable_counter.hpp"
#include "os/affinity.hpp"

namespace zf {
namespace {

/// GNU's OpenMP runtime looks so often before it sleeps if neither OMP_WAIT_POLICY nor GOMP_SPINCOUNT is set
/// (gomp_spin_count_var in libgomp/env.c). That takes about 4 ms of CPU time on an AMD EPYC (Zen 4).
constexpr int kSpins = 300'000;

template <class Done>
void spin(Done done, int times) {
  for (int i = 0; i < times && !done(); ++i) relax_cpu();
}

}  // namespace

struct ComputeTeam::State {
  WaitableCounter epoch;    ///< raised once for each region, and once to stop the threads
  WaitableCounter running;  ///< threads that have not finished the region, or have not started

  // Written by the owner before it raises `epoch`, and read by the threads after they have seen that.
  alignas(kLinePair) Nanoseconds cpu_ns = 0;
  Afterwards afterwards = Afterwards::sleep;
  bool stopping = false;

  const CpuSet cpus;
  std::mutex failure_mutex;
  std::exception_ptr failure;
  std::vector<std::thread> threads;

  explicit State(const CpuSet& where) : cpus(where) {}
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    stopping = true;
    epoch.raise();
    for (std::thread& thread : threads) thread.join();
  }

  void start(int count) {
    running.set(static_cast<std::uint32_t>(count));
    try {
      for (int i = 0; i < count; ++i) threads.emplace_back([this] { thread_main(); });
    } catch (const std::system_error& error) {
      throw Error(Exit::runtime_error,
                  format_text("cannot start a thread of the training side: {}", error.what()),
                  kTaskLimitHint);
    }
    running.wait_for_zero(0);
    if (failure) std::rethrow_exception(failure);
  }

  void thread_main() noexcept {
    try {
      bind_this_thread(cpus);
    } catch (...) {
      const std::lock_guard lock(failure_mutex);
      failure = std::current_exception();
    }
    running.lower();
    int spins = 0;
    for (std::uint32_t seen = 0;;) {
      spin([&] { return epoch.value() != seen; }, spins);
      seen = epoch.wait_while(seen, 0);
      if (stopping) return;
      spins = afterwards == Afterwards::spin ? kSpins : 0;
      burn(cpu_ns);
      running.lower();
    }
  }
};

ComputeTeam::ComputeTeam(const CpuSet& cpus, int threads) : state_(std::make_unique<State>(cpus)) {
  assert(threads > 0);
  state_->start(threads - 1);  // if it throws, ~State ends the threads started so far
}

ComputeTeam::~ComputeTeam() = default;

void ComputeTeam::compute(Nanoseconds cpu_ns, Afterwards afterwards) {
  State& state = *state_;
  state.cpu_ns = cpu_ns;
  state.afterwards = afterwards;
  state.running.set(static_cast<std::uint32_t>(state.threads.size()));
  state.epoch.raise();
  burn(cpu_ns);
  spin([&] { return state.running.value() == 0; }, kSpins);
  state.running.wait_for_zero(0);
}

void burn(Nanoseconds cpu_ns) {
  const auto spent = [] {
    timespec time{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return time.tv_sec * kSecondNs + time.tv_nsec;
  };
  const Nanoseconds end = spent() + cpu_ns;
  while (spent() < end) {
  }
}

}  // namespace zf
