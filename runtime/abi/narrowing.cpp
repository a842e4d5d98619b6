#include "abi/narrowing.hpp"

#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <utility>
#include <vector>

#include "os/thread_moves.hpp"

namespace zf {
namespace {

/// How many handles keep the process on the training side of a home.
struct Count {
  CpuSet home;
  CpuSet training;
  int handles = 0;
};

/// The counts of one process.
struct Counts {
  explicit Counts(pid_t owner, Counts* parents_counts) : process(owner), parents(parents_counts) {}

  const pid_t process;
  Counts* const parents;  ///< kept, so that a leak checker still finds them
  std::mutex mutex;       ///< protects `all`, and is held while threads are moved
  std::vector<Count> all;
};

/// State of the process on purpose: masks belong to the process, and not to a handle. Of several handles,
/// only the last one that is closed may give the home back. It is never freed, because a handle may be closed
/// by a destructor at the exit of the program.
std::atomic<Counts*> g_counts{nullptr};

/// Returns the counts of this process. A forked child has none at first, whatever its parent has opened, and
/// whichever of the parent's threads held the mutex at the fork.
Counts& counts_of_this_process() {
  Counts* known = g_counts.load(std::memory_order_acquire);
  while (known == nullptr || known->process != getpid()) {
    auto* const fresh = new Counts(getpid(), known);
    if (g_counts.compare_exchange_strong(known, fresh, std::memory_order_acq_rel)) return *fresh;
    delete fresh;
  }
  return *known;
}

/// Returns the place of a count in the list, or the end.
auto find(std::vector<Count>& counts, const CpuSet& home, const CpuSet& training) {
  return std::ranges::find_if(
      counts, [&](const Count& count) { return count.home == home && count.training == training; });
}

}  // namespace

Narrowing::Narrowing(const CpuSet& home, const CpuSet& training) : home_(home), training_(training) {
  if (home == training) return;
  Counts& counts = counts_of_this_process();
  const std::lock_guard lock(counts.mutex);
  MovedThreads result = move_threads(own_threads(), home, training);
  moved_ = result.moved;
  problem_ = std::move(result.problem);
  auto count = find(counts.all, home, training);
  if (count == counts.all.end()) {
    // If no thread had the home, the program chose all masks, and they are not ours to change later.
    if (moved_ == 0) return;
    count = counts.all.insert(count, {.home = home, .training = training});
  }
  ++count->handles;
  counted_ = true;
}

Narrowing::~Narrowing() {
  if (!counted_) return;
  Counts& counts = counts_of_this_process();
  const std::lock_guard lock(counts.mutex);
  const auto count = find(counts.all, home_, training_);
  if (count == counts.all.end() || --count->handles != 0) return;
  counts.all.erase(count);
  // Whatever is refused here, no caller is left to be told. The thread then stays where it is.
  move_threads(own_threads(), training_, home_);
}

}  // namespace zf
