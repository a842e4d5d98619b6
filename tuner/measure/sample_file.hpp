// Writes every sample to a file beside the plan, so that an interrupted sweep can continue.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/file_descriptor.hpp"
#include "base/state_format.hpp"
#include "homes/homes.hpp"
#include "measure/meter.hpp"
#include "measure/recorded_sweep.hpp"
#include "plan/evidence.hpp"
#include "plan/machine_class.hpp"
#include "plan/workload.hpp"

namespace zf {

/// Returns the first line of a sample file, without its newline. It holds all that samples must have in
/// common to be compared: the fingerprints of machine and allocation, the workload, the homes, the size that
/// is measured, the state format if it is not fp32, and the version of zf-tune.
std::string sample_file_header(const MachineClass& machine, const Allocation& allocation,
                               const Workload& workload, const std::vector<Home>& homes, const Meter& meter);

/// Returns the path of a plan's sample file: plan.json.samples.jsonl beside plan.json.
std::filesystem::path sample_file_of(const std::filesystem::path& plan);

/// Returns whether the sweep of this plan was interrupted, or still runs: its samples have no last line.
/// False if the plan has no sample file.
bool was_interrupted(const std::filesystem::path& plan);

/// Tells whether a RecordingMeter with this header would answer a round from this file. False also if the
/// file cannot be read.
bool can_continue(const std::filesystem::path& file, const std::string& header);

/// Records what another meter measures: one line per sample, written after each visit. Answers the rounds
/// that an interrupted sweep with the same header has finished from the file. A round that was interrupted is
/// measured again as a whole, because the machine may have changed meanwhile: visits of two sessions must not
/// be compared within one round. docs/tuning.md specifies the file.
class RecordingMeter : public Meter {
 public:
  /// Continues the file if its header is the same and finish() was not called. Otherwise, or if `fresh`,
  /// starts a new one. An interrupted sweep of another job, with another header, is copied to NAME.old, or to
  /// the first of NAME.old.1 to NAME.old.9 that nothing has, unless `fresh`. Drops a last line that was cut
  /// off. Throws Error(usage) with the path, and changes nothing, if what has the name belongs to another
  /// user, or is no regular file, or neither empty nor a sample file of some version. Throws
  /// Error(runtime_error) with the path if another process writes the file, or if a call fails. Where the
  /// file system has no locks, another process is not noticed: see notes(). Throws Error(runtime_error) if an
  /// interrupted sweep must be kept and none of the names is free.
  RecordingMeter(Meter& meter, std::filesystem::path path, const std::string& header, bool fresh);

  /// Answers this round from the file if a finished round there has the same splits and was not used yet.
  void begin_round(const std::vector<std::string>& labels) override;
  /// Returns the samples of the next visit to the split in this round. If the round is answered from the
  /// file, a visit more than it has returns nothing. Precondition: begin_round() was called.
  std::vector<SplitSample> measure(const Split& split, const VisitLimits& limits) override;
  std::uint64_t elements_per_rank() const override { return meter_.elements_per_rank(); }
  StateFormat state_format() const override { return meter_.state_format(); }
  double scale() const override { return meter_.scale(); }
  std::string isa() const override { return meter_.isa(); }
  Nanoseconds now() const override { return meter_.now(); }

  /// Returns how many visits of finished rounds were found in the file and can be answered from it.
  int recorded_visits() const { return recorded_visits_; }

  /// Returns lines for the user: the file could not be locked, an interrupted sweep was moved.
  const std::vector<std::string>& notes() const { return notes_; }

  /// Marks the sweep as finished, so that the next one starts a new file.
  void finish();

  /// Returns whether another RecordingMeter with the same header would answer a round from the file.
  bool can_continue() const;

 private:
  void keep_sweep_of_another_job(const std::string& text);
  void append(const std::string& text) const;
  void set_size(std::uint64_t bytes) const;

  Meter& meter_;
  std::filesystem::path path_;
  std::string header_;
  FileDescriptor file_;
  RecordedSweep recorded_;                  ///< counts what is added, and loses the rounds that were used
  std::optional<RecordedRound> answering_;  ///< the round that is answered from the file
  std::string round_line_;                  ///< begins this round in the file; empty if it was written
  int recorded_visits_ = 0;
  std::vector<std::string> notes_;
};

}  // namespace zf
