#include "measure/sample_file.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <span>
#include <string_view>

#include "base/cpu_list.hpp"
#include "base/error.hpp"
#include "base/version.hpp"
#include "os/file.hpp"
#include "plan/evidence_json.hpp"
#include "plan/workload_json.hpp"

namespace zf {
namespace {

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
  const Object header{{"schema", "zf-samples/3"},
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
    // Lustre without the mount option flock, and NFS without its lock service.
    if (error != ENOSYS && error != ENOLCK && error != EOPNOTSUPP)
      throw_errno(error, path_.string() + ": cannot lock the file", "choose another -o FILE");
    note_ =
        fmt::format("{}: cannot be locked here ({}): start no other zf-tune tune with this file meanwhile",
                    path_.string(), errno_text(error));
  }
  if (!fresh && read(header)) return;
  recorded_.clear();
  recorded_visits_ = 0;
  checked(::ftruncate(file_.get(), 0), path_.string());
  try {
    append(header + "\n");
  } catch (const Error&) {
    ::unlink(path_.c_str());  // without a header there is nothing to continue from
    throw;
  }
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
      const JsonDocument document(line, name);
      const Field sample =
          document.root().object({"split", "visit", "step_ns", "roofline_ns", "training_ns",
                                  "launch_delay_p50_ns", "launch_delay_p99_ns", "training_bytes"});
      const Visit visit{sample["split"].text(), sample["visit"].integer(0, kMaxInt)};
      recorded_[visit].push_back(read_times(sample));
    }
  } catch (const Error&) {
    return false;  // edited or damaged: measuring again is cheap, wrong samples are not
  }
  recorded_visits_ = static_cast<int>(recorded_.size());
  checked(::ftruncate(file_.get(), static_cast<off_t>(content.size() - rest.size())), name);
  return true;
}

void RecordingMeter::append(const std::string& text) const {
  if (const int error = write_all(file_.get(), std::as_bytes(std::span(text))); error != 0) {
    throw_errno(error, path_.string(), "free some space and run again: the sweep then continues");
  }
}

std::vector<SplitSample> RecordingMeter::measure(const Split& split, const VisitLimits& limits) {
  const int visit = visits_[split.label]++;
  if (const auto known = recorded_.find({split.label, visit}); known != recorded_.end()) return known->second;
  const auto measured = meter_.measure(split, limits);
  std::string lines;
  for (const SplitSample& sample : measured) lines += line_of(split.label, visit, sample);
  append(lines);
  return measured;
}

void RecordingMeter::finish() { append(std::string(kDone) + "\n"); }

}  // namespace zf
