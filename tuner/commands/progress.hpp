// Shows the progress of a sweep on stderr.
#pragma once

#include <cstddef>
#include <string>

#include "search/sweep.hpp"

namespace zf {

/// The choice whether the times that a sweep has taken and has left are shown. They are hidden for a
/// simulated machine: the user waits for none of them, because the sweep of a minute is over at once.
enum class Clock { shown, hidden };

/// Returns the line for a terminal of that many columns: "refine 3/6: pool 8, spread | best pool 4, compact:
/// 97.0 ms, spread 1.2 % | at most 41 s left". If that is too long, parts are left out, and nothing is cut.
/// Needs 40 columns. Pure.
std::string progress_line(const SweepProgress& progress, std::size_t width, Clock clock);

/// Returns what is said at the end of a round where there is no terminal, broken at `width` columns: "[ 12.3
/// s] round 2, refine 6 splits: best …". Ends with a newline. Pure.
std::string progress_of_round(const SweepProgress& progress, std::size_t width, Clock clock);

/// Draws one line over and over again if stderr is a terminal. Otherwise prints a line at the end of each
/// round.
class ProgressDisplay {
 public:
  enum class Mode { silent, live, plain };

  /// Chooses the mode: silent if `quiet`, live if stderr is a terminal, plain otherwise. A live display says
  /// at once that measuring has begun.
  ProgressDisplay(bool quiet, Clock clock);
  ~ProgressDisplay() { clear(); }
  ProgressDisplay(const ProgressDisplay&) = delete;
  ProgressDisplay& operator=(const ProgressDisplay&) = delete;

  void show(const SweepProgress& progress) const;
  /// Erases the live line. Nothing is shown afterwards.
  void clear();

 private:
  Mode mode_;
  Clock clock_;
};

}  // namespace zf
