// What was seen of a job's threads while they were watched, in words and as JSON. Pure.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "inspect/thread_watch.hpp"
#include "plan/json_fields.hpp"

namespace zf {

/// How often the masks of all threads are read.
inline constexpr Nanoseconds kLookInterval = 500 * kMillisecondNs;

/// Returns when to look next, after the look that was due at `due` has ended. Looks that were missed, because
/// this process was stopped or has no CPU time, are not made up for.
Nanoseconds next_look(Nanoseconds due, Nanoseconds now);

/// A move, when it was seen, and how its process and thread are called.
struct WatchedMove {
  Nanoseconds at_ns = 0;  ///< after the first look
  ThreadMove move;
  std::string process;
  std::string thread;
};

/// The CPUs that processes could use if they were not bound (available_cpus()) have changed.
struct CpusChange {
  Nanoseconds at_ns = 0;  ///< after the first look
  CpuSet from;
  CpuSet to;
  std::size_t processes = 1;
};

/// Returns true if a thread has moved because of the change: its CPUs that are in both sets are the same, or
/// the kernel has given it all that are there now.
bool explains(const CpusChange& change, const ThreadMove& move);

struct WatchedMoves {
  Nanoseconds for_ns = 0;               ///< from the first look to the last one
  std::size_t looks = 0;                ///< the first included
  std::size_t threads = 0;              ///< at the first look
  bool has_ended = false;               ///< the job ended meanwhile
  std::vector<WatchedMove> moves = {};  ///< without those that a change explains
  std::vector<CpusChange> changes = {};
};

/// Returns "12.5 s: process 4711 (python3), thread 4713 (NCCL Service): moved from CPUs 0-7 to CPUs 0-63".
std::string in_words(const WatchedMove& move);

/// Returns "12.5 s: the CPUs of 2 processes changed from 0-7 to 0-3 (…): …", with what to do.
std::string in_words(const CpusChange& change);

/// Returns "watched 120 threads for 60.0 s: none was moved", and that the job has ended, if it has.
std::string in_words(const WatchedMoves& watched);

/// Returns the object that verification_json() promises.
Object to_json(const WatchedMoves& watched);

}  // namespace zf
