// Shows the progress of a sweep on stderr.
#pragma once

#include <cstddef>
#include <string>

#include "search/sweep.hpp"

namespace zf {

/// Returns "refine 3/6: pool 8, spread | best pool 4, compact: 97.0 ms, spread 1.2 % | at most 41 s left",
/// cut to `width` columns; 0 means no limit. Pure.
std::string progress_line(const SweepProgress& progress, std::size_t width);

/// Draws one line over and over again if stderr is a terminal. Otherwise prints a line at the end of each
/// round.
class ProgressDisplay {
 public:
  enum class Mode { silent, live, plain };

  /// Chooses the mode: silent if `quiet`, live if stderr is a terminal, plain otherwise. A live display says
  /// at once that measuring has begun.
  explicit ProgressDisplay(bool quiet);
  ~ProgressDisplay() { clear(); }
  ProgressDisplay(const ProgressDisplay&) = delete;
  ProgressDisplay& operator=(const ProgressDisplay&) = delete;

  void show(const SweepProgress& progress) const;
  /// Erases the live line. Nothing is shown afterwards.
  void clear();

 private:
  Mode mode_;
};

}  // namespace zf
