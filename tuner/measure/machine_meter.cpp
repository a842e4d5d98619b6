#include "measure/machine_meter.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <functional>
#include <new>
#include <vector>

#include "base/address_space.hpp"
#include "base/error.hpp"
#include "base/format.hpp"
#include "ipc/child.hpp"

namespace zf {
namespace {

/// The time that a visit may take beyond its deadline. It may still have to touch its memory and finish its
/// first rounds.
constexpr Nanoseconds kGraceNs = 300 * kSecondNs;

/// The barrier and every rank's readings, in memory that forks share.
class SharedReadings {
 public:
  SharedReadings(std::size_t ranks, std::size_t rounds)
      : rounds_(rounds), bytes_(sizeof(ProcessBarrier) + ranks * rounds * sizeof(SplitSample)) {
    static_assert(sizeof(ProcessBarrier) % alignof(SplitSample) == 0);
    memory_ = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory_ == MAP_FAILED)
      throw_errno(errno, "cannot map shared memory for the ranks' readings",
                  memory_hint(bytes_, "give the job more memory"));
    new (memory_) ProcessBarrier;
  }
  ~SharedReadings() { ::munmap(memory_, bytes_); }
  SharedReadings(const SharedReadings&) = delete;
  SharedReadings& operator=(const SharedReadings&) = delete;

  ProcessBarrier& barrier() const { return *static_cast<ProcessBarrier*>(memory_); }
  SplitSample* readings_of(std::size_t rank) const {
    auto* const first = reinterpret_cast<SplitSample*>(static_cast<char*>(memory_) + sizeof(ProcessBarrier));
    return first + rank * rounds_;
  }

 private:
  std::size_t rounds_;
  std::size_t bytes_;
  void* memory_ = nullptr;
};

/// Starts the process of one rank.
Child start_rank(const std::function<void()>& work) {
  return fork_child(
      [&] {
        // Ctrl-C goes to every process of the terminal. Ignored here: the parent decides, and this visit goes
        // on.
        for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::signal(signal, SIG_IGN);
        work();
        return 0;
      },
      Reach::process, "cannot start the process of a rank");
}

/// Returns what to do after a rank's process has ended like this; may be empty.
std::string_view next_step_after(const ExitStatus& status) {
  if (status.signal == SIGKILL) return "memory may have run out: look in dmesg and at the job's memory limit";
  return status.signal ? memory_hint(kAllocatorBytes, "") : "";  // oneTBB crashes if it gets no memory
}

/// Waits until the processes of all ranks have ended. If one failed or is late, tells the others through the
/// barrier. If they go on for too long after stop() returned true, returns before they have ended.
void wait_for_all(std::vector<Child>& ranks, ProcessBarrier& barrier, Nanoseconds limit_ns,
                  const std::function<bool()>& stop) {
  constexpr Nanoseconds kPollNs = 50 * kMillisecondNs;
  std::vector<bool> gone(ranks.size(), false);
  Nanoseconds stopped_ns = 0;
  while (std::find(gone.begin(), gone.end(), false) != gone.end()) {
    if (stopped_ns == 0 && stop && stop()) stopped_ns = now_ns();
    if (stopped_ns != 0 && now_ns() > stopped_ns + Meter::kStopGraceNs) return;
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      if (gone[rank] || !ranks[rank].wait_until(now_ns() + kPollNs)) continue;
      gone[rank] = true;
      const ExitStatus status = ranks[rank].reap();
      if (status.code == 0) continue;
      const std::string_view next = next_step_after(status);
      barrier.fail(format_text("the process of rank {} {}{}{}", rank, describe(status),
                               next.empty() ? "" : "; ", next));
    }
    if (now_ns() > limit_ns) barrier.fail("a rank did not finish in time");
    if (now_ns() > limit_ns + 10 * kSecondNs) return;  // stuck in the kernel; the destructor kills it
  }
}

/// Joins the samples of two ranks: the slower time counts, and bytes add up.
SplitSample joined(const SplitSample& a, const SplitSample& b) {
  return {std::max(a.step_ns, b.step_ns),
          std::max(a.roofline_ns, b.roofline_ns),
          std::max(a.training_ns, b.training_ns),
          std::max(a.launch_delay_p50_ns, b.launch_delay_p50_ns),
          std::max(a.launch_delay_p99_ns, b.launch_delay_p99_ns),
          a.training_bytes + b.training_bytes};
}

}  // namespace

std::vector<SplitSample> MachineMeter::measure(const Split& split, const VisitLimits& limits) {
  constexpr std::uint32_t kWarmUp = kWarmUpRounds;
  const auto rounds = static_cast<std::uint32_t>(limits.samples) + kWarmUp;
  const std::size_t ranks = split.ranks.size();
  const SharedReadings shared(ranks, rounds);
  ProcessBarrier& barrier = shared.barrier();
  barrier.begin(static_cast<std::uint32_t>(ranks), rounds, kWarmUp + kMinSamples, limits.deadline_ns);

  std::vector<Child> processes;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    processes.push_back(start_rank(
        [&] { run_rank(split.ranks[rank], work_, limits.hopeless_ns, barrier, shared.readings_of(rank)); }));
  }
  const Nanoseconds latest = std::max(now_ns(), std::min(limits.deadline_ns, INT64_MAX - 2 * kGraceNs));
  wait_for_all(processes, barrier, latest + kGraceNs, limits.stop);
  processes.clear();  // kills those that stop() did not wait for, so that they write no more readings
  if (barrier.has_failed())
    throw Error(Exit::runtime_error, format_text("measuring \"{}\": {}", split.label, barrier.why()));

  std::vector<SplitSample> joint;
  for (std::size_t round = kWarmUp; round < rounds && shared.readings_of(0)[round].roofline_ns != 0;
       ++round) {
    SplitSample sample = shared.readings_of(0)[round];
    for (std::size_t rank = 1; rank < ranks; ++rank) sample = joined(sample, shared.readings_of(rank)[round]);
    joint.push_back(sample);
  }
  return joint;
}

}  // namespace zf
