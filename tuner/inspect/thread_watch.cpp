#include "inspect/thread_watch.hpp"

#include <utility>

namespace zf {

std::vector<ThreadMove> ThreadWatch::look() {
  std::vector<ThreadMove> moves;
  std::map<ThreadId, Known> now;
  // Before any mask is read. A tick more than a second, because a start is rounded down to a tick.
  const std::uint64_t time = source_.now();
  const auto has_begun = [&](std::uint64_t started) { return time > started + source_.ticks_per_s; };
  std::map<int, std::optional<ProcessSides>> sides;  // asked for once a process: it takes long
  const auto is_narrowed = [&](int pid, const CpuSet& from, const CpuSet& to) {
    const auto found = sides.find(pid);
    const auto& own = (found != sides.end() ? found : sides.emplace(pid, source_.sides(pid)).first)->second;
    if (!own) return false;
    return own->is_open ? from == own->home && to == own->training : from == own->training && to == own->home;
  };
  for (const ThreadId& thread : source_.list()) {
    const auto cpus = source_.cpus(thread);
    if (!cpus) continue;
    const auto before = known_.find(thread);
    if (before != known_.end() && before->second.cpus == *cpus) {
      now[thread] = {before->second.started, *cpus, has_begun(before->second.started), before->second.placed};
      continue;
    }
    // The start is read for new and moved threads only: reading a file takes far longer than asking for a
    // mask.
    const auto started = source_.started(thread);
    if (!started) continue;
    const bool is_same = before != known_.end() && before->second.started == *started;
    const bool is_moved = is_same && before->second.is_settled;
    // Also of a thread that may place itself: the sides can be seen only while our runtime is open.
    const bool is_ours = is_same && is_narrowed(thread.pid, before->second.cpus, *cpus);
    if (is_moved && !is_ours && binding_to(thread.pid) != *cpus)
      moves.push_back({thread, before->second.cpus, *cpus});
    now[thread] = {*started, *cpus, (is_first_ || is_same) && has_begun(*started)};
    if (is_moved) now[thread].placed = before->second.placed.value_or(before->second.cpus);
  }
  known_ = std::move(now);
  is_first_ = false;
  return moves;
}

std::optional<CpuSet> ThreadWatch::binding_to(int pid) const {
  const auto binding = source_.binding_thread(pid);
  if (!binding) return std::nullopt;
  const auto known = known_.find(*binding);
  if (known == known_.end() || !known->second.is_settled) return source_.cpus(*binding);
  return known->second.placed.value_or(known->second.cpus);
}

}  // namespace zf
