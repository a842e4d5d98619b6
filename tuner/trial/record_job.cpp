#include "trial/record_job.hpp"

#include <algorithm>
#include <filesystem>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/format.hpp"
#include "base/text.hpp"
#include "children/attached_command.hpp"
#include "children/orphans.hpp"
#include "children/temporary_folder.hpp"
#include "compare/statistics.hpp"
#include "engine/isa.hpp"
#include "homes/homes.hpp"
#include "measure/bench.hpp"
#include "measure/machine_meter.hpp"
#include "measure/working_set_size.hpp"
#include "os/environment.hpp"
#include "os/file.hpp"
#include "text/command_line.hpp"

namespace zf {

/// Returns the names and the texts of the recorder's Python files, runtime/python/zf_runtime/record. The
/// build makes this function (scripts/embed.cmake).
std::vector<std::pair<std::string_view, std::string_view>> recorder_files();

namespace {

namespace fs = std::filesystem;

/// After one rank has seen enough, the others get this long to do the same before --stop ends the command.
constexpr Nanoseconds kOtherRanksNs = 2 * kSecondNs;
/// Processes that the command leaves behind get this long to end by themselves. ZenFlow's optimizer outlives
/// a trainer that a signal ends.
constexpr Nanoseconds kOrphansNs = 5 * kSecondNs;
constexpr int kStepVisits = 3;

/// Writes the recorder's Python files.
void write_recorder(const TemporaryFolder& folder) {
  if (const std::string path = folder.path().string(); path.find(':') != std::string::npos) {
    throw Error(Exit::usage,
                format_text("TMPDIR={}: PYTHONPATH cannot name a folder with a colon",
                            folder.path().parent_path().string()),
                "set TMPDIR to another folder");
  }
  fs::create_directory(folder / "zf_record");
  for (const auto& [name, text] : recorder_files())
    folder.write(name == "sitecustomize.py" ? std::string(name) : format_text("zf_record/{}", name), text);
}

/// Returns what lets each Python process of the command find the recorder.
std::map<std::string, std::string> recorder_variables(const TemporaryFolder& folder, int updates) {
  const std::string others = Environment::of_this_process().get("PYTHONPATH").value_or("");
  return {{"PYTHONPATH", folder.path().string() + (others.empty() ? "" : ":" + others)},
          {"ZF_RECORD_UPDATES", std::to_string(updates)}};
}

/// Returns the files with this ending, in the order of their names. Returns none if the command has removed
/// the folder.
std::vector<fs::path> files_with(const TemporaryFolder& folder, std::string_view ending) {
  std::vector<fs::path> files;
  std::error_code gone;
  for (const auto& entry : fs::directory_iterator(folder.path(), gone)) {
    if (entry.path().extension() == ending) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

/// Returns what the recorder said that had seen most: its file comes last.
std::string why_nothing(const TemporaryFolder& folder) {
  const auto reasons = files_with(folder, ".why");
  if (!reasons.empty()) return one_line(read_text_file(reasons.back()));
  return "no Python process of the command imported torch (python -I, -E and -S load no recorder)";
}

}  // namespace

JobRecord record_job(const RecordRequest& request) {
  const TemporaryFolder folder("zf-tune-record");
  write_recorder(folder);

  JobRecord record;
  std::size_t ranks = 0;
  Nanoseconds changed_ns = 0;
  const auto stop = [&] {
    const std::size_t seen = request.stop ? files_with(folder, ".json").size() : 0;
    if (seen != ranks) changed_ns = now_ns();
    ranks = std::max(ranks, seen);
    if (seen == 0 || now_ns() - changed_ns < kOtherRanksNs) return false;
    record.stopped = true;
    return true;
  };
  std::optional<Orphans> orphans;
  if (request.stop) orphans.emplace();
  record.end = run_attached(request.command, recorder_variables(folder, request.updates), stop,
                            kCommandPatience, request.output);
  if (record.stopped) Orphans::end(kOrphansNs);

  std::vector<WorkloadFile> files;
  for (const fs::path& path : files_with(folder, ".json")) files.push_back(load_workload_file(path));
  if (files.empty()) {
    record.why = why_nothing(folder);
    return record;
  }
  record.file = joined_ranks(files);
  record.file->source += ":";
  for (const std::string& word : request.command) record.file->source += " " + shell_quoted(word);
  return record;
}

std::optional<double> measured_step_factor(const WorkloadFile& file, const Machine& machine,
                                           const std::function<bool()>& stop) {
  const Workload& workload = file.workload;
  if (workload.framework == Framework::native || !file.recorded || !file.recorded->step_ns)
    return std::nullopt;
  const std::uint64_t elements =
      working_set_size(workload.params, workload.ranks, last_level_cache_bytes(machine.topology),
                       available_memory_bytes(SysRoot(), machine.allowed))
          .elements_per_rank;
  const auto ranks = static_cast<std::size_t>(workload.ranks);
  const Split split = pools_on(homes_of(machine.topology, machine.allowed, std::vector<Preference>(ranks)),
                               file.recorded->threads);
  const RankWork work{.elements = elements, .isa = chosen_isa(), .roofline_each_round = true};
  MachineMeter meter(work, 1);
  std::vector<double> steps;
  for (int visit = 0; visit < kStepVisits; ++visit) {
    for (const SplitSample& sample : meter.measure(split, {.stop = stop}))
      steps.push_back(static_cast<double>(sample.step_ns));
    if (stop()) return std::nullopt;
  }
  const double ours_ns = median(steps) * static_cast<double>(workload.params) /
                         static_cast<double>(elements * static_cast<std::uint64_t>(workload.ranks));
  return static_cast<double>(*file.recorded->step_ns) / ours_ns;
}

}  // namespace zf
