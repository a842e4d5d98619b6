#include "measure/sample_file.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <span>
#include <string_view>
#include <utility>

#include "base/cpu_list.hpp"
#include "base/error.hpp"
#include "base/version.hpp"
#include "os/file.hpp"
#include "plan/evidence_json.hpp"
#include "plan/workload_json.hpp"

namespace zf {
namespace {

/// A line that begins like this names the splits of a round. The lines of their samples follow.
constexpr std::string_view kRoundBegin = R"({"round":)";
constexpr std::string_view kDone = R"({"done":true})";

std::string line_of(const std::string& label, int visit, const SplitSample& sample) {
  Object object{{"split", label}, {"visit", visit}};
  add_times(object, sample);
  return print_json_line(object) + "\n";
}

/// Removes the first line from `text`. Returns false if no whole line is left.
bool next_line(std::string_view& text, std::string_view& line) {
  const auto end = text.find('\n');
  if (end == std::string_view::npos) return false;
  line = text.substr(0, end);
  text.remove_prefix(end + 1);
  return true;
}

}  // namespace

std::string sample_file_header(const MachineClass& machine, const Allocation& allocation,
                               const Workload& workload, const std::vector<Home>& homes, const Meter& meter) {
  Object lists = Object::array();
  for (const Home& home : homes) lists.push_back(print(home.cpus()));
  const Object header{{"schema", "zf-samples/5"},
                      {"by", fmt::format("zf-tune {}", version())},
                      {"machine", machine.fingerprint},
                      {"allocation", allocation.fingerprint},
                      {"workload", print_workload(workload)},
                      {"homes", lists},
                      {"elements_per_rank", meter.elements_per_rank()},
                      {"scale", meter.scale()},
                      {"isa", meter.isa()}};
  return print_json_line(header);
}

std::filesystem::path sample_file_of(const std::filesystem::path& plan) {
  return plan.string() + ".samples.jsonl";
}

bool has_unfinished_sweep(const std::filesystem::path& file, const std::string& header) {
  if (!std::filesystem::exists(file)) return false;
  const std::string content = read_text_file(file);
  return content.starts_with(header + "\n") && !content.ends_with(fmt::format("{}\n", kDone));
}

RecordingMeter::RecordingMeter(Meter& meter, std::filesystem::path path, const std::string& header,
                               bool fresh)
    : meter_(meter), path_(std::move(path)) {
  file_ = FileDescriptor(checked(
      ::open(path_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0644), path_.string(),
      "zf-tune keeps its samples in this file: remove it, or choose another -o FILE"));
  if (::flock(file_.get(), LOCK_EX | LOCK_NB) != 0) {
    const int error = errno;
    if (error == EWOULDBLOCK)
      throw Error(Exit::runtime_error, path_.string() + ": another zf-tune is writing this file",
                  "wait until that one ends, or choose another -o FILE");
    if (!has_no_locks(error))
      throw_errno(error, path_.string() + ": cannot lock the file", "choose another -o FILE");
    note_ =
        fmt::format("{}: cannot be locked here ({}): start no other zf-tune tune with this file meanwhile",
                    path_.string(), errno_text(error));
  }
  if (!fresh && read(header)) return;
  recorded_.clear();
  visits_.clear();
  rounds_ = recorded_visits_ = 0;
  checked(::ftruncate(file_.get(), 0), path_.string());
  try {
    append(header + "\n");
  } catch (const Error&) {
    ::unlink(path_.c_str());  // without a header there is nothing to continue from
    throw;
  }
}

bool RecordingMeter::Round::is_finished() const {
  return std::none_of(visits.begin(), visits.end(), [](const auto& split) { return split.second.empty(); });
}

bool RecordingMeter::Round::has_splits(const std::vector<std::string>& labels) const {
  return labels.size() == visits.size() &&
         std::all_of(labels.begin(), labels.end(),
                     [&](const std::string& label) { return visits.contains(label); });
}

/// Reads the line that begins a round, or one sample. Throws Error if it is neither.
void RecordingMeter::read_line(std::string_view line) {
  const std::string name = path_.string();
  const JsonDocument document(line, name);
  if (line.starts_with(kRoundBegin)) {
    const Field begin = document.root().object({"round", "splits"});
    Round& round = recorded_.emplace_back();
    for (const Field& label : begin["splits"].items()) round.visits[label.text()];
    ++rounds_;
    return;
  }
  const Field sample =
      document.root().object({"split", "visit", "step_ns", "roofline_ns", "training_ns",
                              "launch_delay_p50_ns", "launch_delay_p99_ns", "training_bytes"});
  const std::string label = sample["split"].text();
  const int visit = sample["visit"].integer(0, kMaxInt - 1);
  if (recorded_.empty() || !recorded_.back().visits.contains(label))
    throw Error(Exit::runtime_error, name + ": a sample is of no split of its round");
  auto& visits = recorded_.back().visits[label];
  if (visits.empty() || visit != visits_[label] - 1) {
    visits.emplace_back();
    visits_[label] = visit + 1;
  }
  visits.back().push_back(read_times(sample));
}

/// Reads the recorded samples and removes a torn last line. Returns false if the file is not that of an
/// unfinished sweep with this header.
bool RecordingMeter::read(const std::string& header) {
  const std::string content = read_text_file(path_);
  const std::string name = path_.string();
  std::string_view rest = content;
  std::string_view line;
  if (!next_line(rest, line) || line != header) return false;
  try {
    while (next_line(rest, line)) {
      if (line == kDone) return false;
      read_line(line);
    }
  } catch (const Error&) {
    return false;  // edited or damaged: measuring again is cheap, wrong samples are not
  }
  std::erase_if(recorded_, [](const Round& round) { return !round.is_finished(); });
  for (const Round& round : recorded_) {
    for (const auto& [label, visits] : round.visits) recorded_visits_ += static_cast<int>(visits.size());
  }
  checked(::ftruncate(file_.get(), static_cast<off_t>(content.size() - rest.size())), name);
  return true;
}

void RecordingMeter::append(const std::string& text) const {
  if (const int error = write_all(file_.get(), std::as_bytes(std::span(text))); error != 0) {
    throw_errno(error, path_.string(), "free some space and run again: the sweep then continues");
  }
}

void RecordingMeter::begin_round(const std::vector<std::string>& labels) {
  const auto known = std::find_if(recorded_.begin(), recorded_.end(),
                                  [&](const Round& round) { return round.has_splits(labels); });
  answering_.reset();
  if (known != recorded_.end()) {
    answering_ = std::move(*known);
    recorded_.erase(known);
    return;
  }
  round_line_ = print_json_line(Object{{"round", rounds_++}, {"splits", labels}}) + "\n";
}

std::vector<SplitSample> RecordingMeter::measure(const Split& split, const VisitLimits& limits) {
  if (answering_) {
    auto& visits = answering_->visits.at(split.label);
    if (visits.empty()) return {};
    auto samples = std::move(visits.front());
    visits.pop_front();
    return samples;
  }
  const auto measured = meter_.measure(split, limits);
  if (measured.empty()) return measured;
  const int visit = visits_[split.label]++;
  std::string lines = std::exchange(round_line_, "");
  for (const SplitSample& sample : measured) lines += line_of(split.label, visit, sample);
  append(lines);
  return measured;
}

void RecordingMeter::finish() { append(std::string(kDone) + "\n"); }

}  // namespace zf
