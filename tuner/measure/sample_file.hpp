// Every sample as a line beside the plan, so that an interrupted sweep goes on where it was.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/file_descriptor.hpp"
#include "homes/homes.hpp"
#include "measure/meter.hpp"
#include "plan/plan.hpp"

namespace zf {

/// The first line of a sample file, without its newline: all that samples must have in common to be compared.
/// `machine` and `allocation` by fingerprint, workload, homes, what is measured over, and the version of
/// zf-tune.
std::string sample_file_header(const MachineClass& machine, const Allocation& allocation,
                               const Workload& workload, const std::vector<Home>& homes, const Meter& meter);

/// Where the samples of a plan go: plan.json.samples.jsonl beside plan.json.
std::filesystem::path sample_file_of(const std::filesystem::path& plan);

/// A meter that writes down what another one measures, one line per sample, a visit at a time; and that
/// answers from the file what an interrupted sweep with the same header has measured already, visit for
/// visit. (docs/tuning.md specifies the file.)
class RecordingMeter : public Meter {
 public:
  /// Goes on with the file if its header is the same and finish() was not called; else begins it anew, as it
  /// always does when `fresh`. A last line that was cut off is dropped. Throws Error(runtime_error) with the
  /// path.
  RecordingMeter(Meter& meter, std::filesystem::path path, const std::string& header, bool fresh);

  std::vector<SplitSample> measure(const Split& split, int samples, Nanoseconds deadline_ns) override;
  std::uint64_t elements_per_rank() const override { return meter_.elements_per_rank(); }
  double scale() const override { return meter_.scale(); }
  std::string isa() const override { return meter_.isa(); }
  Nanoseconds now() const override { return meter_.now(); }

  /// Visits that were found in the file and can be answered from it.
  int recorded_visits() const { return recorded_visits_; }

  /// The sweep has ended by itself: the next one begins anew.
  void finish();

 private:
  using Visit = std::pair<std::string, int>;  ///< label, and how manieth visit of it

  bool read(const std::string& header);
  void append(const std::string& text) const;

  Meter& meter_;
  std::filesystem::path path_;
  FileDescriptor file_;
  std::map<Visit, std::vector<SplitSample>> recorded_;
  std::map<std::string, int> visits_;  ///< made, or answered, by label
  int recorded_visits_ = 0;
};

}  // namespace zf
