// What a person sees while a sweep runs.
#pragma once

#include <cstddef>
#include <string>

#include "search/sweep.hpp"

namespace zf {

/// "narrow 3/6: pool 8, spread | best pool 4, compact: 97.0 ms, spread 1.2 % | at most 41 s left". Cut to
/// `width` columns; 0: as long as it is. Pure.
std::string progress_line(const SweepProgress& progress, std::size_t width);

/// On a terminal one line that is drawn over again; else a plain line when a round is done. On stderr.
class ProgressDisplay {
 public:
  enum class Mode { silent, live, plain };

  /// Says at once that something is going on. Live where stderr is a terminal, plain where it is not, silent
  /// if asked for.
  explicit ProgressDisplay(bool quiet);
  ~ProgressDisplay() { clear(); }
  ProgressDisplay(const ProgressDisplay&) = delete;
  ProgressDisplay& operator=(const ProgressDisplay&) = delete;

  void show(const SweepProgress& progress) const;
  /// Takes the live line away. Nothing is shown afterwards.
  void clear();

 private:
  Mode mode_;
};

}  // namespace zf
