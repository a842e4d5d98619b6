#include "commands/watch_threads.hpp"

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>

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

}  // namespace

WatchedMoves watch_threads(const std::vector<int>& pids, Nanoseconds for_ns, bool says_at_once) {
  const InterruptWatch interrupt;
  ThreadWatch watch(live_threads(pids));
  const Nanoseconds begin = now_ns();
  WatchedMoves watched;
  for (Nanoseconds next = begin;; next = std::min(next_look(next, now_ns()), begin + for_ns)) {
    sleep_until(next, interrupt);
    const auto moves = watch.look();
    watched.for_ns = now_ns() - begin;
    if (watched.looks++ == 0) watched.threads = watch.threads();
    for (const ThreadMove& move : moves) {
      watched.moves.push_back(named(move, watched.for_ns));
      if (says_at_once) print_stdout("{}\n", in_words(watched.moves.back()));
    }
    watched.has_ended = watch.threads() == 0;
    const bool is_heard = !says_at_once || flush_stdout() == 0;
    if (watched.has_ended || !is_heard || interrupt.signal() != 0 || next >= begin + for_ns) break;
  }
  if (says_at_once) print_stdout("{}\n", in_words(watched));
  return watched;
}

}  // namespace zf
