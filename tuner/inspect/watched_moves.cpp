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

std::string in_words(const WatchedMoves& watched) {
  const std::size_t count = watched.moves.size();
  const std::string moved = count == 0 ? "none was moved" : print_count(count, "move");
  return format_text("watched {} for {:.1f} s: {}{}", print_count(watched.threads, "thread"),
                     seconds(watched.for_ns), moved, watched.has_ended ? "; the job has ended" : "");
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
  return {{"seconds", seconds(watched.for_ns)},
          {"looks", watched.looks},
          {"threads", watched.threads},
          {"moved", moved}};
}

}  // namespace zf
