// Keeps the runs of a trial in a file beside the plan, so that an interrupted trial can go on.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace zf {

/// What one run of the command gave.
struct RecordedRun {
  std::vector<double> values;      ///< without the warm-up; at least one
  bool was_stopped_early = false;  ///< it could not win any more
};

/// The facts that the runs of two trials must share to be compared: texts by their names, such as "command".
using TrialIdentity = std::map<std::string, std::string>;

/// Returns the path of a plan's trial file: plan.json.trial.json beside plan.json.
std::filesystem::path trial_file_of(const std::filesystem::path& plan);

/// The file of a trial. It is written as a whole after each run. Two trials must not use the same file.
class TrialFile {
 public:
  /// Reads the file if it is that of an interrupted trial with the same `identity`. Otherwise begins without
  /// runs, and dropped() says why; the file stays as it is until the first run. An empty path means no file:
  /// nothing is read or written.
  TrialFile(std::filesystem::path path, TrialIdentity identity, bool fresh);

  std::size_t run_count() const { return runs_.size(); }
  const std::filesystem::path& path() const { return path_; }
  /// Says which runs of the file are not used, and why. Empty if all are, or if the user wanted none of them.
  const std::string& dropped() const { return dropped_; }
  /// Returns the run of a split in a round; null if there was none.
  const RecordedRun* find(const std::string& label, int round) const;
  /// Adds a run and writes the file. Throws Error(runtime_error) with the path. Precondition: the run has a
  /// value.
  void add(const std::string& label, int round, RecordedRun run);

 private:
  void read();

  std::filesystem::path path_;
  TrialIdentity identity_;
  std::string dropped_;
  std::map<std::pair<std::string, int>, RecordedRun> runs_;  ///< by label and round
};

}  // namespace zf
