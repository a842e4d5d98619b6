// What a sample file holds of an interrupted sweep. Pure. docs/tuning.md specifies the file.
#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plan/evidence.hpp"

namespace zf {

/// The last line of the file of a sweep that has ended by itself.
inline constexpr std::string_view kSweepDone = R"({"done":true})";

/// A round in the file. The splits are in order of their labels, each with its visits one after the other.
struct RecordedRound {
  std::map<std::string, std::deque<std::vector<SplitSample>>> visits;

  /// Returns whether each split has a visit.
  bool is_finished() const;
  bool has_splits(const std::vector<std::string>& labels) const;
};

/// An interrupted sweep. A round that was interrupted counts among `rounds` and `visits`, and is not among
/// `finished`.
struct RecordedSweep {
  std::vector<RecordedRound> finished;
  int rounds = 0;
  std::map<std::string, int> visits;  ///< by label
  std::size_t bytes = 0;              ///< of its whole lines; a last line that was cut off follows them

  /// Returns the number of visits in finished rounds.
  int finished_visits() const;
};

/// Reads the text of a sample file of this name. Returns nothing if it is not that of an unfinished sweep
/// with this header, or if it was edited or damaged: measuring again is cheap, wrong samples are not.
std::optional<RecordedSweep> recorded_sweep(std::string_view text, const std::string& name,
                                            std::string_view header);

}  // namespace zf
