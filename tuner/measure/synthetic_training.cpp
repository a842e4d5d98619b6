#include "measure/synthetic_training.hpp"

#include <oneapi/tbb/blocked_range.h>
#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/info.h>
#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/task_arena.h>
#include <oneapi/tbb/task_scheduler_observer.h>
#include <semaphore.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cmath>
#include <ctime>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <vector>

#include "base/error.hpp"
#include "base/format.hpp"
#include "compare/statistics.hpp"
#include "measure/compute_team.hpp"
#include "measure/held_threads.hpp"
#include "measure/training_buffer.hpp"
#include "measure/training_demand.hpp"
#include "os/affinity.hpp"

namespace zf {
namespace {

constexpr std::size_t kGrain = std::size_t{32} << 10;  // elements of host work in a task

/// Wraps the POSIX semaphore: std::binary_semaphore of libstdc++ 12 may lose a wake-up
/// (gcc.gnu.org/PR104928).
class Semaphore {
 public:
  Semaphore() { ::sem_init(&semaphore_, 0, 0); }
  ~Semaphore() { ::sem_destroy(&semaphore_); }
  Semaphore(const Semaphore&) = delete;
  Semaphore& operator=(const Semaphore&) = delete;
  void release() { ::sem_post(&semaphore_); }
  void acquire() {
    while (::sem_wait(&semaphore_) != 0 && errno == EINTR) {
    }
  }

 private:
  sem_t semaphore_{};
};

/// Keeps the first failure of any thread for the owner.
class Failure {
 public:
  void keep(std::exception_ptr failure) {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = std::move(failure);
  }
  void rethrow() {
    const std::lock_guard lock(mutex_);
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  std::mutex mutex_;
  std::exception_ptr failure_;
};

/// Uses oneTBB for the first time while the calling thread is bound to `cpus`. oneTBB gives each new thread
/// the binding that the process's first thread had at that time, until the thread enters an arena.
/// Precondition: the process has not used oneTBB before, and its first thread makes this object.
struct TbbFirstUse {
  explicit TbbFirstUse(const CpuSet& cpus) {
    const CpuSet before = thread_affinity();
    bind_this_thread(cpus);
    tbb::info::default_concurrency();
    bind_this_thread(before);
  }
};

/// Binds each of oneTBB's threads when it enters the arena.
class Binder : public tbb::task_scheduler_observer {
 public:
  Binder(tbb::task_arena& arena, const CpuSet& cpus, Failure& failure)
      : task_scheduler_observer(arena), cpus_(cpus), failure_(failure) {
    observe(true);
  }
  ~Binder() override { observe(false); }
  Binder(const Binder&) = delete;
  Binder& operator=(const Binder&) = delete;

  void on_scheduler_entry(bool /*is_worker*/) override {
    try {
      bind_this_thread(cpus_);
    } catch (...) {
      failure_.keep(std::current_exception());
    }
  }

 private:
  const CpuSet& cpus_;
  Failure& failure_;
};

void sleep_until(Nanoseconds point_ns) {
  if (now_ns() >= point_ns) return;
  const timespec point{point_ns / kSecondNs, point_ns % kSecondNs};
  while (::clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &point, nullptr) == EINTR) {
  }
}

}  // namespace

struct SyntheticTraining::State {
  State(const CpuSet& where, int threads, std::size_t buffer_bytes, const TrainingDemand& demanded,
        const std::function<void()>& while_held)
      : cpus(where),
        training_demand(demanded),
        regions(regions_of(demanded, threads)),
        buffer(buffer_bytes),
        tbb_first_use(where),
        // Otherwise oneTBB would limit itself to the number of CPUs that it saw at its first use.
        parallelism(tbb::global_control::max_allowed_parallelism, static_cast<std::size_t>(threads) + 1),
        arena(threads, 0),
        binder(arena, cpus, failure) {
    delays.reserve(training_demand.launches);
    if (regions.count != 0) team.emplace(cpus, threads);
    start_threads(while_held);
    done.acquire();
    try {
      failure.rethrow();
    } catch (...) {
      end_threads();
      throw;
    }
  }
  ~State() { end_threads(); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  void start_threads(const std::function<void()>& while_held) {
    try {
      {
        // oneTBB ends the process (std::terminate in a thread of its own) if a thread is refused. So this
        // finds out before whether the copier, the driver and oneTBB's threads can run at once.
        const HeldThreads held(static_cast<std::size_t>(arena.max_concurrency()) + 2);
        if (while_held) while_held();
      }
      copier = std::thread([this] {
        thread_main(
            copy_begin, [this] { copy(); }, copy_done);
      });
      driver = std::thread([this] {
        thread_main(
            begin, [this] { run_steps(); }, done);
      });
      steps = 0;  // with 0 steps it only starts the arena and touches the memory
      begin.release();
    } catch (const std::system_error& error) {
      end_threads();
      throw Error(Exit::runtime_error,
                  format_text("cannot start a thread of the training side: {}", error.what()),
                  kTaskLimitHint);
    }
  }

  void end_threads() {
    stopping = true;
    begin.release();
    copy_begin.release();
    if (driver.joinable()) driver.join();
    if (copier.joinable()) copier.join();
  }

  /// Runs as a thread: calls `work` each time `begin_work` is released, and then releases `work_done`.
  void thread_main(Semaphore& begin_work, const std::function<void()>& work, Semaphore& work_done) {
    try {
      bind_this_thread(cpus);
    } catch (...) {
      failure.keep(std::current_exception());
    }
    for (;;) {
      begin_work.acquire();
      if (stopping) return;
      work();
      work_done.release();
    }
  }

  void touch() {
    using Range = tbb::blocked_range<std::size_t>;
    tbb::parallel_for(Range(0, buffer.elements(), kGrain),
                      [this](const Range& range) { buffer.touch(range.begin(), range.end()); });
  }

  void run_steps() {
    if (steps == 0) return arena.execute([this] { touch(); });
    reading = {};
    delays.clear();
    const Nanoseconds start = now_ns();
    for (int i = 1; i < steps; ++i) run_step(ComputeTeam::Afterwards::spin);
    run_last_step();
    reading.step_ns = (now_ns() - start) / steps;
    reading.bytes = training_demand.gradient_bytes + training_demand.host_bytes;
    if (delays.empty()) return;
    reading.launch_delay_p50_ns = std::llround(quantile(delays, 0.5));
    reading.launch_delay_p99_ns = std::llround(quantile(delays, 0.99));
  }

  /// Runs a training step that ends an update: gradients are copied meanwhile, and then worked on.
  void run_last_step() {
    copy_start_ns = now_ns();
    copy_begin.release();
    run_step(after_update);
    copy_done.acquire();
    arena.execute([this] { host_work(); });
  }

  void run_step(ComputeTeam::Afterwards afterwards) {
    const Nanoseconds step_start_ns = now_ns();
    const auto kernels = static_cast<Nanoseconds>(training_demand.launches);
    gpu = GpuClock(step_start_ns, kernels == 0 ? training_demand.gpu_ns : training_demand.gpu_ns / kernels);
    if (kernels == 0) {
      gpu.launch(step_start_ns);
    } else if (!regions.with_the_launch) {
      arena.enqueue([this, step_start_ns] { launch(training_demand.launches, step_start_ns); });
      chain_done.acquire();
    }
    compute(afterwards);
    sleep_until(gpu.free_ns());
  }

  /// Runs one launch of the chain and enqueues the next one. `due_ns` is when the launch before it ended.
  void launch(std::uint64_t left, Nanoseconds due_ns) {
    burn(training_demand.launch_ns);
    const Nanoseconds over_ns = now_ns();
    delays.push_back(
        static_cast<double>(std::max<Nanoseconds>(0, over_ns - due_ns - training_demand.launch_ns)));
    gpu.launch(over_ns);
    if (left == 1) {
      chain_done.release();
    } else {
      arena.enqueue([this, left, over_ns] { launch(left - 1, over_ns); });
    }
  }

  /// Copies at the pace of the training demand. A copied byte is read and written here, so it counts as two
  /// bytes of the demand, which the GPU's copy engine would only write.
  void copy() {
    constexpr std::uint64_t kMoved = 2 * TrainingBuffer::kCopyBytes;
    for (std::uint64_t moved = 0; moved < training_demand.gradient_bytes; moved += kMoved) {
      sleep_until(due_ns(copy_start_ns, moved, training_demand.copy_bytes_per_s));
      buffer.copy_piece();
    }
  }

  void compute(ComputeTeam::Afterwards afterwards) {
    for (std::int64_t left = regions.count; left > 0; --left) {
      burn(regions.serial_ns);
      team->compute(regions.each_ns, left == 1 ? afterwards : ComputeTeam::Afterwards::spin);
    }
  }

  void host_work() {
    using Range = tbb::blocked_range<std::size_t>;
    std::size_t left = training_demand.host_bytes / TrainingBuffer::kBytesPerAdded;
    while (left > 0) {
      const std::size_t part = std::min(left, buffer.elements());
      tbb::parallel_for(Range(0, part, kGrain),
                        [this](const Range& range) { buffer.add(range.begin(), range.end()); });
      left -= part;
    }
  }

  const CpuSet cpus;
  const TrainingDemand training_demand;
  const Regions regions;
  TrainingBuffer buffer;
  Failure failure;
  TbbFirstUse tbb_first_use;
  tbb::global_control parallelism;
  tbb::task_arena arena;
  Binder binder;
  std::optional<ComputeTeam> team;

  // The semaphores hand these from thread to thread.
  int steps = 0;
  ComputeTeam::Afterwards after_update = ComputeTeam::Afterwards::spin;
  bool stopping = false;
  Nanoseconds copy_start_ns = 0;
  GpuClock gpu{0, 0};
  std::vector<double> delays;
  TrainingReading reading;
  Semaphore begin;
  Semaphore done;
  Semaphore copy_begin;
  Semaphore copy_done;
  Semaphore chain_done;
  std::thread copier;
  std::thread driver;
};

SyntheticTraining::SyntheticTraining(const CpuSet& cpus, int threads, std::size_t buffer_bytes,
                                     const TrainingDemand& training_demand,
                                     const std::function<void()>& while_held)
    : state_(std::make_unique<State>(cpus, threads, buffer_bytes, training_demand, while_held)) {}

SyntheticTraining::~SyntheticTraining() = default;

void SyntheticTraining::start(int steps, ComputeTeam::Afterwards after_update) {
  assert(steps > 0);
  state_->steps = steps;
  state_->after_update = after_update;
  state_->begin.release();
}

TrainingReading SyntheticTraining::wait() {
  state_->done.acquire();
  state_->failure.rethrow();
  return state_->reading;
}

}  // namespace zf
