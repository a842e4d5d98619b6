// Looks on while a job runs, until a time is over, the job ends, or the user presses Ctrl-C.
#pragma once

#include <vector>

#include "base/clock.hpp"
#include "inspect/watched_moves.hpp"

namespace zf {

/// Watches the threads of these processes and of all below them. Also watches which
/// CPUs the processes could use: moves that such a change explains are not told one by one. With
/// `says_at_once`, prints each move and change on stdout when it is seen, and at the end a sentence.
WatchedMoves watch_threads(const std::vector<int>& pids, Nanoseconds for_ns, bool says_at_once);

}  // namespace zf
