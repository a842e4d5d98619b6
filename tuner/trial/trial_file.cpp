#include "trial/trial_file.hpp"

#include <nlohmann/json.hpp>
#include <system_error>

#include "base/error.hpp"
#include "os/file.hpp"
#include "plan/json_fields.hpp"

namespace zf {
namespace {

constexpr const char* kSchema = "zf-trial/1";
constexpr int kMaxRounds = 1000;

}  // namespace

std::filesystem::path trial_file_of(const std::filesystem::path& plan) {
  return plan.string() + ".trial.json";
}

TrialFile::TrialFile(std::filesystem::path path, std::string identity, bool fresh)
    : path_(std::move(path)), identity_(std::move(identity)) {
  std::error_code error;
  if (path_.empty() || fresh || !std::filesystem::exists(path_, error)) return;
  try {
    read();
  } catch (const Error&) {
    runs_.clear();  // edited, damaged, or of another version: running again is slow, wrong runs are worse
  }
}

void TrialFile::read() {
  const std::string text = read_text_file(path_);
  const std::string name = path_.string();
  const JsonDocument document(text, name);
  const Field root = document.root().schema({kSchema});
  root.object({"schema", "trial", "runs"});
  if (root["trial"].text() != identity_) return;
  for (const Field& field : root["runs"].items()) {
    field.object({"split", "round", "values", "was_stopped_early"});
    RecordedRun run;
    for (const Field& value : field["values"].items()) run.values.push_back(value.number());
    if (run.values.empty()) field["values"].fail("is empty");
    run.was_stopped_early = field["was_stopped_early"].boolean();
    runs_[{field["split"].text(), field["round"].integer(0, kMaxRounds)}] = std::move(run);
  }
}

const RecordedRun* TrialFile::find(const std::string& label, int round) const {
  const auto found = runs_.find({label, round});
  return found == runs_.end() ? nullptr : &found->second;
}

void TrialFile::add(const std::string& label, int round, RecordedRun run) {
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
