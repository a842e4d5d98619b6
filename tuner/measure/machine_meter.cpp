#include "measure/machine_meter.hpp"

#include <fmt/core.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <functional>
#include <new>
#include <vector>

#include "base/error.hpp"
#include "base/file_descriptor.hpp"
#include "ipc/child.hpp"

namespace zf {
namespace {

/// Beyond its deadline a visit may still have to touch its memory and go its two least rounds. Nobody waits
/// longer.
constexpr Nanoseconds kGraceNs = 300 * kSecondNs;

/// The lockstep and every rank's readings, in memory that forks share.
class SharedReadings {
 public:
  SharedReadings(std::size_t ranks, std::size_t rounds)
      : rounds_(rounds), bytes_(sizeof(Lockstep) + ranks * rounds * sizeof(SplitSample)) {
    static_assert(sizeof(Lockstep) % alignof(SplitSample) == 0);
    memory_ = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory_ == MAP_FAILED) throw_errno(errno, "shared memory for the ranks' readings");
    new (memory_) Lockstep;
  }
  ~SharedReadings() { ::munmap(memory_, bytes_); }
  SharedReadings(const SharedReadings&) = delete;
  SharedReadings& operator=(const SharedReadings&) = delete;

  Lockstep& lockstep() const { return *static_cast<Lockstep*>(memory_); }
  SplitSample* of(std::size_t rank) const {
    auto* const first = reinterpret_cast<SplitSample*>(static_cast<char*>(memory_) + sizeof(Lockstep));
    return first + rank * rounds_;
  }

 private:
  std::size_t rounds_;
  std::size_t bytes_;
  void* memory_ = nullptr;
};

/// A fork that runs one rank. Killed, if need be, and collected at the latest by the destructor.
class RankProcess {
 public:
  explicit RankProcess(const std::function<void()>& work) {
    const pid_t parent = ::getpid();
    pid_ = checked(::fork(), "cannot start a process per rank");
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (::getppid() != parent) ::_exit(1);  // it died before the line above
      // Ctrl-C goes to all of us: the parent decides, and this visit is finished.
      for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::signal(signal, SIG_IGN);
      work();
      ::_exit(0);
    }
    pidfd_ = open_pidfd(pid_);
  }
  ~RankProcess() {
    if (pid_ <= 0 || collected_) return;
    ::kill(pid_, SIGKILL);
    collect();
  }
  RankProcess(RankProcess&& other) noexcept
      : pid_(std::exchange(other.pid_, -1)), pidfd_(std::move(other.pidfd_)), collected_(other.collected_) {}
  RankProcess& operator=(RankProcess&&) = delete;

  bool has_ended(int wait_ms) const {
    pollfd ended{pidfd_.get(), POLLIN, 0};
    const int ready = ::poll(&ended, 1, wait_ms);
    if (ready < 0 && errno != EINTR) throw_errno(errno, "poll on a rank's process");
    return ready > 0;
  }
  /// Precondition: has_ended().
  ExitStatus collect() {
    int status = 0;
    pid_t got = 0;
    do {
      got = ::waitpid(pid_, &status, 0);
    } while (got < 0 && errno == EINTR);
    collected_ = true;
    ExitStatus ending;
    if (got == pid_ && WIFEXITED(status)) ending.code = WEXITSTATUS(status);
    if (got == pid_ && WIFSIGNALED(status)) ending.signal = WTERMSIG(status);
    return ending;
  }

 private:
  pid_t pid_ = -1;
  FileDescriptor pidfd_;
  bool collected_ = false;
};

/// Waits for all of them; tells the others when one ended in another way than by itself.
void wait_for_all(std::vector<RankProcess>& processes, Lockstep& lockstep, Nanoseconds limit_ns) {
  constexpr int kLookMs = 50;
  std::vector<bool> gone(processes.size(), false);
  while (std::find(gone.begin(), gone.end(), false) != gone.end()) {
    for (std::size_t rank = 0; rank < processes.size(); ++rank) {
      if (gone[rank] || !processes[rank].has_ended(kLookMs)) continue;
      gone[rank] = true;
      const ExitStatus ending = processes[rank].collect();
      if (ending.code == 0) continue;
      lockstep.fail(fmt::format(
          "the process of rank {} {}{}", rank, describe(ending),
          ending.signal == SIGKILL ? "; if nobody meant to, memory ran out: look at dmesg and the job's limit"
                                   : ""));
    }
    if (now_ns() > limit_ns) lockstep.fail("a rank did not come to an end");
    if (now_ns() > limit_ns + 10 * kSecondNs) return;  // stuck in the kernel: killed by the destructor
  }
}

/// Rank by rank into one: the slowest counts, and bytes add up.
SplitSample joined(const SplitSample& a, const SplitSample& b) {
  return {std::max(a.step_ns, b.step_ns),
          std::max(a.roofline_ns, b.roofline_ns),
          std::max(a.training_ns, b.training_ns),
          std::max(a.launch_delay_p50_ns, b.launch_delay_p50_ns),
          std::max(a.launch_delay_p99_ns, b.launch_delay_p99_ns),
          a.training_bytes + b.training_bytes};
}

}  // namespace

std::vector<SplitSample> MachineMeter::measure(const Split& split, int samples, Nanoseconds deadline_ns) {
  constexpr std::uint32_t kWarmUp = 1;
  const auto rounds = static_cast<std::uint32_t>(samples) + kWarmUp;
  const std::size_t ranks = split.ranks.size();
  const SharedReadings shared(ranks, rounds);
  Lockstep& lockstep = shared.lockstep();
  lockstep.begin(static_cast<std::uint32_t>(ranks), rounds, kWarmUp + kLeastSamples, deadline_ns);

  std::vector<RankProcess> processes;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    processes.emplace_back([&] { run_rank(split.ranks[rank], work_, lockstep, shared.of(rank)); });
  }
  const Nanoseconds latest = std::max(now_ns(), std::min(deadline_ns, INT64_MAX - 2 * kGraceNs));
  wait_for_all(processes, lockstep, latest + kGraceNs);
  if (lockstep.has_failed())
    throw Error(Exit::runtime_error, fmt::format("measuring \"{}\": {}", split.label, lockstep.why()));

  std::vector<SplitSample> joint;
  for (std::size_t round = kWarmUp; round < rounds && shared.of(0)[round].roofline_ns != 0; ++round) {
    SplitSample sample = shared.of(0)[round];
    for (std::size_t rank = 1; rank < ranks; ++rank) sample = joined(sample, shared.of(rank)[round]);
    joint.push_back(sample);
  }
  return joint;
}

}  // namespace zf
