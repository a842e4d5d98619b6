#include "tuner/machine_meter.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <exception>
#include <memory>
#include <thread>

#include "base/error.hpp"
#include "engine/kernel.hpp"
#include "engine/pool.hpp"
#include "engine/working_set.hpp"
#include "os/affinity.hpp"
#include "tuner/values.hpp"

namespace zf {
namespace {

/// What every rank does between two barriers, in this order over and over.
enum class Pass { step, roofline };

/// Drives all ranks in lockstep. Times are taken by the barrier itself, when the last rank arrives, so that a
/// pass lasts from the start of all to the end of the slowest.
class Lockstep {
 public:
  Lockstep(std::size_t ranks, int samples, Nanoseconds deadline_ns)
      : wanted_passes_(2 * (samples + 1)),
        deadline_ns_(deadline_ns),
        barrier_(static_cast<std::ptrdiff_t>(ranks), Tick{this}) {}

  /// Called by each rank with its own work; all return together.
  template <class Step, class Roofline>
  void run(Step&& step, Roofline&& roofline) {
    barrier_.arrive_and_wait();
    while (!stop_) {
      pass_ == Pass::step ? step() : roofline();
      barrier_.arrive_and_wait();
    }
  }

  /// For a rank that could not be set up: everyone stops at the first barrier.
  void fail() {
    failed_ = true;
    barrier_.arrive_and_wait();
  }

  /// The pairs after the warm-up pair.
  std::vector<SplitSample> samples() const {
    std::vector<SplitSample> pairs;
    for (std::size_t i = 2; i + 1 < pass_ns_.size(); i += 2) {
      SplitSample pair;
      pair.step_ns = pass_ns_[i];
      pair.roofline_ns = pass_ns_[i + 1];
      pairs.push_back(pair);
    }
    return pairs;
  }

 private:
  struct Tick {
    Lockstep* lockstep;
    void operator()() noexcept { lockstep->tick(); }
  };

  /// Runs once per barrier, on the last rank to arrive, while all others wait.
  void tick() noexcept {
    const Nanoseconds now = now_ns();
    if (failed_) {
      stop_ = true;
      return;
    }
    if (started_) {
      pass_ns_.push_back(now - pass_start_ns_);
      const auto passes = static_cast<int>(pass_ns_.size());
      const bool whole_pairs = passes % 2 == 0;
      stop_ = passes >= wanted_passes_ || (whole_pairs && passes >= 4 && now > deadline_ns_);
      pass_ = whole_pairs ? Pass::step : Pass::roofline;
    }
    started_ = true;
    pass_start_ns_ = now_ns();
  }

  int wanted_passes_;
  Nanoseconds deadline_ns_;
  std::atomic<bool> failed_ = false;
  // Written by tick() alone; the barrier orders them before every reader.
  bool started_ = false;
  bool stop_ = false;
  Pass pass_ = Pass::step;
  Nanoseconds pass_start_ns_ = 0;
  std::vector<Nanoseconds> pass_ns_;
  std::barrier<Tick> barrier_;
};

/// One rank's side of a visit: its pool and working set live and die on this thread.
void drive_rank(const RankSplit& rank, std::size_t elements, Isa isa, Lockstep& lockstep) {
  std::unique_ptr<Pool> pool;
  std::unique_ptr<WorkingSet> memory;
  try {
    pool = std::make_unique<Pool>(rank.pool);
    if (rank.unbound) pool->run([&](std::size_t) { bind_this_thread(rank.optimizer); });
    memory = std::make_unique<WorkingSet>(*pool, elements);
  } catch (...) {
    lockstep.fail();
    throw;
  }
  const AdamKernel kernel = adam_kernel(isa, {});
  const AdamSettings settings;
  AdamProgress progress;
  const auto step = [&] {
    progress = advanced(progress, settings, progress.step + 1);
    const AdamScalars scalars = scalars_of(settings, progress);
    pool->run([&](std::size_t member) { kernel(scalars, memory->slice(member)); });
  };
  const auto roofline = [&] {
    pool->run([&](std::size_t member) { roofline_pass(isa, memory->slice(member)); });
  };
  lockstep.run(step, roofline);
}

}  // namespace

MachineMeter::MachineMeter(std::uint64_t elements_per_rank, double scale)
    : elements_(elements_per_rank), scale_(scale), isa_(chosen_isa()) {}

std::string MachineMeter::isa() const { return std::string(name_of(isa_)); }

std::vector<SplitSample> MachineMeter::measure(const Split& split, int samples, Nanoseconds deadline_ns) {
  Lockstep lockstep(split.ranks.size(), samples, deadline_ns);
  std::vector<std::exception_ptr> failures(split.ranks.size());
  {
    std::vector<std::jthread> drivers;
    for (std::size_t rank = 0; rank < split.ranks.size(); ++rank) {
      drivers.emplace_back([&, rank] {
        try {
          drive_rank(split.ranks[rank], elements_, isa_, lockstep);
        } catch (...) {
          failures[rank] = std::current_exception();
        }
      });
    }
  }
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
  return lockstep.samples();
}

WorkingSetSize working_set_size(std::uint64_t params, int ranks, std::uint64_t cache_bytes,
                                std::uint64_t available_bytes) {
  constexpr std::uint64_t kMinBytes = (std::uint64_t{1} << 30) + (std::uint64_t{64} << 20);
  constexpr std::uint64_t kCachesToLeave = 4;
  const auto count = static_cast<std::uint64_t>(ranks);
  const std::uint64_t enough = std::max(kMinBytes, kCachesToLeave * cache_bytes);
  // More than enough is no more accurate: a 7B model is measured over the same bytes as a 3B one.
  const std::uint64_t wanted = params == 0 ? enough : std::min(enough, params * WorkingSet::kBytesPerElement);
  const std::uint64_t bytes = std::min(wanted, available_bytes / 2);

  WorkingSetSize size;
  size.elements_per_rank = std::max<std::uint64_t>(1, bytes / WorkingSet::kBytesPerElement / count);
  if (bytes < wanted) {
    size.warning = fmt::format("measured over {} instead of {}: only {} of memory are available",
                               print_bytes(bytes), print_bytes(wanted), print_bytes(available_bytes));
  } else if (bytes < 2 * cache_bytes) {
    size.warning =
        fmt::format("the {} measured over may stay in the caches ({}): bandwidths are not memory's",
                    print_bytes(bytes), print_bytes(cache_bytes));
  }
  return size;
}

}  // namespace zf
