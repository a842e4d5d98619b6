#include "trial/trial_file.hpp"

#include <cassert>
#include <nlohmann/json.hpp>
#include <system_error>

#include "base/error.hpp"
#include "base/format.hpp"
#include "base/text.hpp"
#include "os/atomic_file.hpp"
#include "os/file.hpp"
#include "plan/json_fields.hpp"

namespace zf {
namespace {

constexpr const char* kSchema = "zf-trial/2";
constexpr int kMaxRounds = 1000;

}  // namespace

std::filesystem::path trial_file_of(const std::filesystem::path& plan) {
  return plan.string() + ".trial.json";
}

TrialFile::TrialFile(std::filesystem::path path, TrialIdentity identity, bool fresh)
    : path_(std::move(path)), identity_(std::move(identity)) {
  std::error_code error;
  if (path_.empty() || fresh || !std::filesystem::exists(path_, error)) return;
  try {
    read();
  } catch (const Error& damage) {
    // Edited, damaged, or of another version: running again is slow, but wrong runs are worse.
    runs_.clear();
    dropped_ = format_text("the runs of an earlier trial cannot be used: {}", one_line(damage.what()));
  }
  if (!dropped_.empty()) dropped_ += ". The next run overwrites that file: interrupt now to keep it.";
}

void TrialFile::read() {
  const std::string text = read_text_file(path_);
  const std::string name = path_.string();
  const JsonDocument document(text, name);
  const Field root = document.root().schema(kSchema);
  root.object({"schema", "trial", "runs"});
  for (const Field& field : root["runs"].items()) {
    field.object({"split", "round", "values", "was_stopped_early"});
    RecordedRun run;
    for (const Field& value : field["values"].items()) {
      run.values.push_back(value.number());
      if (!(run.values.back() > 0)) value.fail("is not above 0");
    }
    if (run.values.empty()) field["values"].fail("is empty");
    run.was_stopped_early = field["was_stopped_early"].boolean();
    runs_[{field["split"].text(), field["round"].integer(0, kMaxRounds)}] = std::move(run);
  }
  if (!root["trial"].is_object()) root["trial"].fail("is no object");
  std::string others;
  for (const auto& [part, value] : identity_) {
    if (root["trial"].has(part) && root["trial"][part].text() == value) continue;
    others += format_text("{}another {}", others.empty() ? "" : ", ", part);
  }
  if (others.empty()) return;
  dropped_ = format_text("the {} in {} cannot be used: made with {}", print_count(runs_.size(), "run"), name,
                         others);
  runs_.clear();
}

const RecordedRun* TrialFile::find(const std::string& label, int round) const {
  const auto found = runs_.find({label, round});
  return found == runs_.end() ? nullptr : &found->second;
}

void TrialFile::add(const std::string& label, int round, RecordedRun run) {
  assert(!run.values.empty());  // read() would refuse the whole file
  runs_[{label, round}] = std::move(run);
  if (path_.empty()) return;
  Object runs = Object::array();
  for (const auto& [key, value] : runs_) {
    runs.push_back({{"split", key.first},
                    {"round", key.second},
                    {"values", value.values},
                    {"was_stopped_early", value.was_stopped_early}});
  }
  write_text_file_atomically(path_,
                             print_json(Object{{"schema", kSchema}, {"trial", identity_}, {"runs", runs}}));
}

}  // namespace zf
