#include "inspect/watched_moves.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/cpu_list.hpp"
#include "base/format.hpp"
#include "base/text.hpp"

namespace zf {
namespace {

double seconds(Nanoseconds ns) { return static_cast<double>(ns) / static_cast<double>(kSecondNs); }

}  // namespace

Nanoseconds next_look(Nanoseconds due, Nanoseconds now) {
  const Nanoseconds missed = std::max<Nanoseconds>(now - due, 0) / kLookInterval;
  return due + (missed + 1) * kLookInterval;
}

std::string in_words(const WatchedMove& move) {
  const ThreadId& thread = move.move.thread;
  return format_text("{:.1f} s: process {} ({}), thread {} ({}): moved from {} to {}", seconds(move.at_ns),
                     thread.pid, one_line(move.process), thread.tid, one_line(move.thread),
                     print_cpus(move.move.from), print_cpus(move.move.to));
}

bool explains(const CpusChange& change, const ThreadMove& move) {
  return move.to == change.to || (move.to & change.from) == (move.from & change.to);
}

std::string in_words(const CpusChange& change) {
  return format_text(
      "{:.1f} s: the CPUs of {} changed from {} to {} (an in-place resize, another cpuset, or CPUs that went "
      "offline or "
      "came back): the threads go on inside, and not as planned; start the job again with zf-tune exec, "
      "which "
      "fits the plan to these CPUs",
      seconds(change.at_ns),
      change.processes == 1 ? "1 process" : format_text("{} processes", change.processes), print(change.from),
      print(change.to));
}

std::string in_words(const WatchedMoves& watched) {
  const std::size_t count = watched.moves.size();
  const std::string moved = count == 0 ? "none was moved" : print_count(count, "move");
  const std::string changed =
      watched.changes.empty()
          ? ""
          : format_text(", and the CPUs changed {}", print_count(watched.changes.size(), "time"));
  return format_text("watched {} for {:.1f} s: {}{}{}", print_count(watched.threads, "thread"),
                     seconds(watched.for_ns), moved, changed, watched.has_ended ? "; the job has ended" : "");
}

Object to_json(const WatchedMoves& watched) {
  Object moved = Object::array();
  for (const WatchedMove& one : watched.moves) {
    moved.push_back({{"at_s", seconds(one.at_ns)},
                     {"pid", one.move.thread.pid},
                     {"tid", one.move.thread.tid},
                     {"process", one.process},
                     {"thread", one.thread},
                     {"from", print(one.move.from)},
                     {"to", print(one.move.to)}});
  }
  Object changed = Object::array();
  for (const CpusChange& one : watched.changes) {
    changed.push_back({{"at_s", seconds(one.at_ns)},
                       {"processes", one.processes},
                       {"from", print(one.from)},
                       {"to", print(one.to)}});
  }
  return {{"seconds", seconds(watched.for_ns)},
          {"looks", watched.looks},
          {"threads", watched.threads},
          {"moved", moved},
          {"cpus_changed", changed}};
}

}  // namespace zf
