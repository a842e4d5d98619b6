#include "measure/rank_process.hpp"

#include <algorithm>
#include <exception>
#include <span>

#include "base/error.hpp"
#include "engine/kernel.hpp"
#include "engine/pool.hpp"
#include "engine/working_set.hpp"
#include "measure/framework_habits.hpp"
#include "measure/meter.hpp"
#include "measure/synthetic_training.hpp"
#include "os/affinity.hpp"

namespace zf {
namespace {

/// The training side's memory. The optimizer has 16 bytes per parameter, so this is far larger than the
/// caches too.
constexpr std::size_t kTrainingBytesPerElement = 4;

/// Returns how many threads compute on the training side: one per core of training's.
int training_threads(const RankSplit& split) {
  return split.shared ? split.home_cores : split.reserved_cores;
}

/// Starts the pool of a rank as the runtime does: it does not spin where training, or a neighbour, needs the
/// same CPUs.
Pool pool_of(const RankSplit& split) {
  if (split.floats && !split.unbound) return Pool(SharedCpus{split.optimizer, split.pool.size()});
  return Pool(split.pool, split.shared ? 0 : kSpinNs);
}

/// One rank: its pool, its memory and its synthetic training.
class MeasuredRank {
 public:
  MeasuredRank(const RankSplit& split, const RankWork& work, ProcessBarrier& barrier)
      : work_(work),
        pool_(pool_of(split)),
        memory_(pool_, work.elements, optimizer_memory(work.framework), work.format),
        kernel_(adam_kernel(work.isa, {.format = work.format})) {
    if (split.unbound) pool_.run([&](std::size_t) { bind_this_thread(split.optimizer); });
    if (work.training) {
      // All ranks hold their threads before any of them lets go: oneTBB would end the process if another rank
      // took one.
      training_.emplace(split.training, std::max(1, training_threads(split)),
                        work.elements * kTrainingBytesPerElement, *work.training, [&] {
                          if (!barrier.meet()) throw Error(Exit::runtime_error, "another rank has failed");
                        });
    }
  }

  /// Runs one period. If the roofline loop follows, training's threads do not spin beside it.
  void run_period(SplitSample& reading, bool roofline_follows) {
    const bool waits = work_.schedule.mode == Mode::wait;
    if (training_) {
      training_->start(work_.schedule.update_interval,
                       roofline_follows ? ComputeTeam::Afterwards::sleep
                                        : after_update(work_.framework, work_.schedule.mode));
    }
    if (training_ && waits) read_training(reading);
    const Nanoseconds start = now_ns();
    step();
    reading.step_ns = now_ns() - start;
    if (training_ && !waits) read_training(reading);
  }

  void run_roofline(SplitSample& reading) {
    const int loops = work_.roofline_each_round ? 1 : Meter::kRooflineLoops;
    for (int loop = 0; loop < loops; ++loop) {
      const Nanoseconds start = now_ns();
      pool_.run([&](std::size_t member) { roofline_pass(work_.isa, memory_.roofline_slice(member)); });
      const Nanoseconds took = now_ns() - start;
      reading.roofline_ns = loop == 0 ? took : std::min(reading.roofline_ns, took);
    }
  }

 private:
  void read_training(SplitSample& reading) {
    const TrainingReading training = training_->wait();
    reading.training_ns = training.step_ns;
    reading.launch_delay_p50_ns = training.launch_delay_p50_ns;
    reading.launch_delay_p99_ns = training.launch_delay_p99_ns;
    reading.training_bytes = training.bytes;
  }

  void step() {
    const AdamScalars scalars = adam_scalars({}, ++steps_);
    pool_.run([&](std::size_t member) { kernel_(scalars, memory_.step_slice(member)); });
  }

  const RankWork& work_;
  Pool pool_;
  WorkingSet memory_;
  AdamKernel kernel_;
  std::uint64_t steps_ = 0;
  std::optional<SyntheticTraining> training_;
};

}  // namespace

void run_rank(const RankSplit& split, const RankWork& work, Nanoseconds hopeless_ns, ProcessBarrier& barrier,
              SplitSample* readings) noexcept {
  try {
    MeasuredRank rank(split, work, barrier);
    constexpr int kTrial = kWarmUpRounds + Meter::kHopelessSamples;
    // Two barriers per round: the roofline loop of one rank must not overlap the step of another.
    for (int round = 0; barrier.arrive(); ++round) {
      SplitSample& reading = readings[round];
      const bool roofline_follows = round == 0 || work.roofline_each_round;
      rank.run_period(reading, roofline_follows);
      const auto first = [&] { return std::span(readings + kWarmUpRounds, Meter::kHopelessSamples); };
      if (round + 1 == kTrial && is_hopeless(first(), work.schedule, hopeless_ns))
        barrier.end_after_this_round();
      if (!barrier.arrive()) return;
      if (roofline_follows) {
        rank.run_roofline(reading);
      } else {
        reading.roofline_ns = readings[0].roofline_ns;
      }
    }
  } catch (const std::exception& error) {
    barrier.fail(error.what());
  }
}

}  // namespace zf
