#include "local/own_team.hpp"

#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <exception>
#include <span>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/format.hpp"
#include "base/signals_blocked.hpp"
#include "engine/waitable_counter.hpp"
#include "os/affinity.hpp"

namespace zf {
namespace {

bool among(std::span<const Pu> helpers, Pu cpu) {
  return std::find(helpers.begin(), helpers.end(), cpu) != helpers.end();
}

using MaskWords = std::array<unsigned long, 128>;  // for 8192 CPUs, the most that Linux supports today

/// Reads the mask of the calling thread without allocating. Returns false if it is longer.
bool read_mask(MaskWords& words) {
  words = {};
  return sched_getaffinity(0, sizeof words, reinterpret_cast<cpu_set_t*>(words.data())) == 0;
}

/// Tells cheaply, and without allocating, whether the mask of the calling thread is still the same.
class MaskWatch {
 public:
  /// Returns true at the first call, after a change, and if the mask cannot be read.
  bool has_changed() {
    MaskWords now;
    const bool known = read_mask(now);
    const bool same = known && now == last_;
    last_ = now;
    return !same;
  }

 private:
  MaskWords last_ = {};
};

}  // namespace

void move_helpers(const CpuSet& mask, Pu caller, std::span<Pu> helpers) {
  const auto is_good = [&](std::size_t i) {
    return helpers[i] != caller && mask.contains(helpers[i]) && !among(helpers.first(i), helpers[i]);
  };
  // Those in a wrong place first give it up, so that another one can have it.
  for (std::size_t i = 0; i < helpers.size(); ++i) {
    if (!is_good(i)) helpers[i] = kUnbound;
  }
  std::size_t next = 0;  // where the search for a CPU goes on if each has a helper
  for (Pu& helper : helpers) {
    if (helper != kUnbound) continue;
    const auto free =
        std::find_if(mask.begin(), mask.end(), [&](Pu cpu) { return cpu != caller && !among(helpers, cpu); });
    if (free != mask.end()) {
      helper = *free;
      continue;
    }
    if (mask.empty()) continue;
    if (mask.size() > 1 && *(mask.begin() + static_cast<std::ptrdiff_t>(next % mask.size())) == caller)
      ++next;
    helper = *(mask.begin() + static_cast<std::ptrdiff_t>(next++ % mask.size()));
  }
}

std::size_t count_cpus_of_this_thread() {
  MaskWords words;
  if (!read_mask(words)) return thread_affinity().size();
  return static_cast<std::size_t>(CPU_COUNT_S(sizeof words, reinterpret_cast<cpu_set_t*>(words.data())));
}

struct OwnTeam::State {
  WaitableCounter epoch;    ///< raised once for each run, and once to stop the helpers
  WaitableCounter running;  ///< helpers that have not finished the present run, or have not started

  // Written by the calling thread before it raises `epoch`, and read by the helpers after they have seen
  // that.
  alignas(kLinePair) Erased work = nullptr;
  void* context = nullptr;
  std::size_t members = 1;
  bool is_resized = false;  ///< since the last run
  std::atomic<Nanoseconds> spin_ns = kSpinNs;
  bool stopping = false;

  std::vector<std::thread> helpers;
  std::vector<pid_t> tids;
  std::vector<Pu> cpus;     ///< of the helpers, as they are bound
  std::vector<Pu> planned;  ///< room for their next CPUs
  MaskWatch watch;
  CpuSet mask;           ///< of the thread that called last
  bool shared = false;   ///< neighbours share the CPUs
  bool may_bind = true;  ///< false once a binding was refused, until the mask changes

  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  ~State() {
    if (helpers.empty()) return;
    stopping = true;
    epoch.raise();
    for (std::thread& helper : helpers) helper.join();
  }

  void start_one() {
    const std::size_t helper = helpers.size();
    tids.push_back(0);
    cpus.push_back(kUnbound);
    planned.push_back(kUnbound);
    running.set(1);
    try {
      const SignalsBlocked blocked;  // signals go to the program's own threads
      helpers.emplace_back([this, helper, seen = epoch.value()] { thread_main(helper, seen); });
    } catch (const std::system_error& error) {
      tids.pop_back();
      cpus.pop_back();
      planned.pop_back();
      running.set(0);
      throw Error(Exit::runtime_error,
                  format_text("cannot start helper {} of a step: {}", helper + 1, error.what()),
                  kTaskLimitHint);
    }
    running.wait_for_zero(kSpinNs);  // and so its number is known
  }

  void thread_main(std::size_t helper, std::uint32_t seen) noexcept {
    pthread_setname_np(pthread_self(), format_text("zf-local-{}", helper % 100'000).c_str());
    tids[helper] = static_cast<pid_t>(::syscall(SYS_gettid));
    running.lower();
    for (;;) {
      seen = epoch.wait_while(seen, spin_ns.load(std::memory_order_relaxed));
      if (stopping) return;
      if (helper + 1 < members) work(context, helper + 1, members);
      running.lower();
    }
  }

  /// Moves the helpers away from the calling thread, and to where it may run.
  void follow() {
    const bool changed = watch.has_changed();
    if (changed) {
      mask = thread_affinity();
      may_bind = true;
    }
    if (shared) return share(changed);
    const Pu here{sched_getcpu()};
    const std::span<Pu> used(cpus.data(), members - 1);
    const bool is_settled = !changed && !std::exchange(is_resized, false) && !among(used, here);
    if (!may_bind || is_settled) return;
    std::copy(used.begin(), used.end(), planned.begin());
    move_helpers(mask, here, {planned.data(), used.size()});
    for (std::size_t i = 0; i < used.size() && may_bind; ++i) {
      if (planned[i] != used[i]) bind(i, planned[i]);
    }
    // Where two share a CPU, one that spins would keep the other from its work.
    spin_ns.store(members <= mask.size() ? kSpinNs : 0, std::memory_order_relaxed);
  }

  /// Gives all CPUs of the calling thread to each helper, if its mask or the team has changed.
  void share(bool changed) {
    spin_ns.store(0, std::memory_order_relaxed);
    if (!std::exchange(is_resized, false) && !changed) return;
    std::fill(cpus.begin(), cpus.end(), kUnbound);
    for (const pid_t tid : tids) set_thread_affinity(tid, mask);
  }

  void bind(std::size_t helper, Pu cpu) {
    try {
      may_bind = set_thread_affinity(tids[helper], {cpu}) == CpuSet{cpu};
    } catch (const Error&) {
      may_bind = false;  // a container forbids it: the kernel places the helper
    }
    cpus[helper] = may_bind ? cpu : kUnbound;
  }
};

OwnTeam::OwnTeam() : state_(std::make_unique<State>()) {}
OwnTeam::~OwnTeam() = default;

void OwnTeam::resize(std::size_t members) {
  while (state_->helpers.size() + 1 < members) state_->start_one();
  if (members != state_->members) state_->is_resized = true;
  state_->members = members;
}

void OwnTeam::share_cpus(bool shared) {
  if (shared != state_->shared) state_->is_resized = true;
  state_->shared = shared;
}

std::size_t OwnTeam::size() const { return state_->members; }

void OwnTeam::run_erased(Erased work, void* context) noexcept {
  State& state = *state_;
  if (state.members == 1) return work(context, 0, 1);
  try {
    state.follow();
  } catch (const std::exception&) {
    // The mask cannot be read. The helpers stay where they are, which is right, if slower.
  }
  state.work = work;
  state.context = context;
  state.running.set(static_cast<std::uint32_t>(state.helpers.size()));
  state.epoch.raise();
  work(context, 0, state.members);
  state.running.wait_for_zero(state.spin_ns.load(std::memory_order_relaxed));
}

}  // namespace zf
