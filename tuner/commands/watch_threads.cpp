#include "commands/watch_threads.hpp"

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <thread>

#include "base/format.hpp"
#include "commands/interrupt.hpp"
#include "inspect/live_threads.hpp"
#include "inspect/processes.hpp"
#include "os/standard_streams.hpp"
#include "os/sysroot.hpp"

namespace zf {
namespace {

/// How long a Ctrl-C may wait.
constexpr Nanoseconds kNapNs = 50 * kMillisecondNs;

/// Sleeps until this point of now_ns(), or until a signal comes.
void sleep_until(Nanoseconds point, const InterruptWatch& interrupt) {
  for (Nanoseconds now = now_ns(); now < point && interrupt.signal() == 0; now = now_ns())
    std::this_thread::sleep_for(std::chrono::nanoseconds(std::min(kNapNs, point - now)));
}

WatchedMove named(const ThreadMove& move, Nanoseconds at_ns) {
  const SysRoot sysroot;
  const auto process = sysroot.read("/proc/" + std::to_string(move.thread.pid) + "/comm");
  return {at_ns, move, process.value_or("ended"), name_of_thread(sysroot, move.thread)};
}

/// Notices when the CPUs that processes could use change. Asks one process of each control group.
class CpusWatch {
 public:
  explicit CpusWatch(const std::vector<int>& pids) {
    const SysRoot sysroot;
    for (const int pid : pids)
      groups_[sysroot.read(format_text("/proc/{}/cgroup", pid)).value_or("")].pids.push_back(pid);
    for (auto& [name, group] : groups_) group.cpus = available(group).value_or(CpuSet());
  }

  /// Returns the changes since the last look, each once for all processes that it is the same for.
  std::vector<CpusChange> look(Nanoseconds at_ns) {
    std::vector<CpusChange> changes;
    for (auto& entry : groups_) {
      Group& group = entry.second;  // a name that a lambda can have, unlike a structured binding
      const auto now = available(group);
      if (!now || *now == group.cpus) continue;
      auto same = std::ranges::find_if(changes, [&, after = *now](const CpusChange& change) {
        return change.from == group.cpus && change.to == after;
      });
      if (same == changes.end()) same = changes.insert(same, {at_ns, group.cpus, *now, 0});
      same->processes += group.pids.size();
      group.cpus = *now;
    }
    return changes;
  }

 private:
  struct Group {
    std::vector<int> pids;
    CpuSet cpus;
  };

  /// Returns nothing if all processes of the group have ended: a zombie may be in another group.
  static std::optional<CpuSet> available(const Group& group) {
    const SysRoot sysroot;
    for (const int pid : group.pids) {
      CpuSet cpus = available_cpus(sysroot, pid);
      if (!sysroot.read(format_text("/proc/{}/cmdline", pid)).value_or("").empty()) return cpus;
    }
    return std::nullopt;
  }

  std::map<std::string, Group> groups_;
};

}  // namespace

WatchedMoves watch_threads(const std::vector<int>& pids, Nanoseconds for_ns, bool says_at_once) {
  const InterruptWatch interrupt;
  ThreadWatch watch(live_threads(pids));
  const Nanoseconds begin = now_ns();
  WatchedMoves watched;
  CpusWatch cpus(pids);
  std::vector<CpusChange> recent;  // also of the look before: threads and files are not read at one moment
  for (Nanoseconds next = begin;; next = std::min(next_look(next, now_ns()), begin + for_ns)) {
    sleep_until(next, interrupt);
    const auto moves = watch.look();
    watched.for_ns = now_ns() - begin;
    if (watched.looks++ == 0) watched.threads = watch.threads();
    const std::vector<CpusChange> changes = cpus.look(watched.for_ns);
    recent.insert(recent.end(), changes.begin(), changes.end());
    for (const CpusChange& change : changes) {
      watched.changes.push_back(change);
      if (says_at_once) print_stdout("{}\n", in_words(change));
    }
    for (const ThreadMove& move : moves) {
      if (std::ranges::any_of(recent, [&](const CpusChange& change) { return explains(change, move); }))
        continue;
      watched.moves.push_back(named(move, watched.for_ns));
      if (says_at_once) print_stdout("{}\n", in_words(watched.moves.back()));
    }
    recent = changes;
    watched.has_ended = watch.threads() == 0;
    const bool is_heard = !says_at_once || flush_stdout() == 0;
    if (watched.has_ended || !is_heard || interrupt.signal() != 0 || next >= begin + for_ns) break;
  }
  if (says_at_once) print_stdout("{}\n", in_words(watched));
  return watched;
}

}  // namespace zf
