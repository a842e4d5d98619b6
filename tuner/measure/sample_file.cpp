#include "measure/sample_file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <span>
#include <string_view>
#include <utility>

#include "base/cpu_list.hpp"
#include "base/error.hpp"
#include "base/format.hpp"
#include "base/text.hpp"
#include "base/version.hpp"
#include "measure/sample_line.hpp"
#include "os/file.hpp"
#include "plan/json_writer.hpp"
#include "plan/workload_fields.hpp"

namespace zf {
namespace {

std::string line_of(const std::string& label, int visit, const SplitSample& sample) {
  return print_json_line(json_of(SampleLine{label, visit, sample})) + "\n";
}

/// The beginning of every header, whatever the version of the format.
constexpr std::string_view kHeaderBegin = R"({"schema":"zf-samples/)";

[[noreturn]] void refuse(const std::filesystem::path& path, std::string_view why) {
  throw Error(Exit::usage,
              format_text("{}: zf-tune tune would keep its samples there, but this {}", path.string(), why),
              "move it away, or choose another -o FILE");
}

/// Refuses a file that another user owns, and what is no regular file. A link is not followed.
void need_own_file(const std::filesystem::path& path, const struct stat& status) {
  if (!S_ISREG(status.st_mode)) refuse(path, "is not a regular file");
  if (!belongs_to_this_user(path, status.st_uid))
    refuse(path, format_text("belongs to user {}", status.st_uid));
}

/// Opens the sample file, and creates it if nothing has its name. Throws Error(usage) if something else has
/// it.
FileDescriptor open_sample_file(const std::filesystem::path& path) {
  struct stat status = {};
  // Opening a device may do something to it, so look before.
  if (::lstat(path.c_str(), &status) == 0) need_own_file(path, status);
  FileDescriptor file(checked(
      ::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0644),
      path.string(), "zf-tune keeps its samples in this file: make it writable, or choose another -o FILE"));
  checked(::fstat(file.get(), &status), path.string());
  need_own_file(path, status);
  return file;
}

/// Refuses a file that does not begin as a sample file. One that a kill has cut off within its header, or
/// before it, does.
void need_sample_file(const std::filesystem::path& path, const FileDescriptor& file) {
  std::array<char, kHeaderBegin.size()> bytes{};
  const auto size = read_at(path, file.get(), 0, std::as_writable_bytes(std::span(bytes)));
  if (!kHeaderBegin.starts_with(std::string_view(bytes.data(), size)))
    refuse(path, "is not a sample file of zf-tune");
}

/// Returns how many visits an interrupted sweep of any job has in finished rounds; 0 if this is no such
/// sweep.
int visits_to_lose(const std::filesystem::path& path, std::string_view text) {
  const auto recorded = recorded_sweep(text, path.string(), text.substr(0, text.find('\n')));
  return recorded ? recorded->finished_visits() : 0;
}

/// Writes the text to the first of NAME.old, NAME.old.1 to NAME.old.9 that nothing has, and returns its name.
/// The file itself keeps its name and its lock. Throws Error(runtime_error) if none is free.
std::filesystem::path copy_to_old_name(const std::filesystem::path& path, std::string_view text) {
  constexpr int kMoreNames = 9;
  for (int i = 0; i <= kMoreNames; ++i) {
    const std::string old = path.string() + (i == 0 ? ".old" : format_text(".old.{}", i));
    const FileDescriptor file(::open(old.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
    if (file.get() < 0 && errno == EEXIST) continue;
    const int error = file.get() < 0 ? errno : write_all(file.get(), std::as_bytes(std::span(text)));
    if (error == 0) return old;
    if (file.get() >= 0) ::unlink(old.c_str());
    throw_errno(error, old, writing_hint(error));
  }
  throw Error(
      Exit::runtime_error,
      format_text("{0}: the interrupted sweep there cannot be kept: {0}.old and .old.1 to .old.{1} are "
                  "all taken",
                  path.string(), kMoreNames),
      "move one of them away, or choose another -o FILE");
}

}  // namespace

std::string sample_file_header(const MachineClass& machine, const Allocation& allocation,
                               const Workload& workload, const std::vector<Home>& homes, const Meter& meter) {
  Object lists = Object::array();
  for (const Home& home : homes) lists.push_back(print(home.cpus()));
  Object header{{"schema", "zf-samples/5"},
                {"by", format_text("zf-tune {}", version())},
                {"machine", machine.fingerprint},
                {"allocation", allocation.fingerprint},
                {"workload", json_of(workload)},
                {"homes", lists},
                {"elements_per_rank", meter.elements_per_rank()},
                {"scale", meter.scale()},
                {"isa", meter.isa()}};
  if (meter.state_format() != StateFormat::fp32) header["state_format"] = name_of(meter.state_format());
  return print_json_line(header);
}

std::filesystem::path sample_file_of(const std::filesystem::path& plan) {
  return plan.string() + ".samples.jsonl";
}

bool was_interrupted(const std::filesystem::path& plan) {
  std::error_code unknown;
  const std::filesystem::path file = sample_file_of(plan);
  if (!std::filesystem::exists(file, unknown)) return false;
  return !read_text_file(file).ends_with(std::string(kSweepDone) + "\n");
}

bool can_continue(const std::filesystem::path& file, const std::string& header) {
  try {
    const auto recorded = recorded_sweep(read_text_file(file), file.string(), header);
    return recorded && !recorded->finished.empty();
  } catch (const Error&) {
    return false;
  }
}

RecordingMeter::RecordingMeter(Meter& meter, std::filesystem::path path, const std::string& header,
                               bool fresh)
    : meter_(meter), path_(std::move(path)), header_(header) {
  file_ = open_sample_file(path_);
  if (::flock(file_.get(), LOCK_EX | LOCK_NB) != 0) {
    const int error = errno;
    if (error == EWOULDBLOCK)
      throw Error(Exit::runtime_error, path_.string() + ": another zf-tune is writing this file",
                  "wait until that one ends, or choose another -o FILE");
    if (!has_no_locks(error))
      throw_errno(error, path_.string() + ": cannot lock the file", "choose another -o FILE");
    notes_.push_back(
        format_text("{}: cannot be locked here ({}): start no other zf-tune tune with this file meanwhile",
                    path_.string(), errno_text(error)));
  }
  need_sample_file(path_, file_);
  if (!fresh) {
    const std::string text = read_text_file(path_);
    if (auto recorded = recorded_sweep(text, path_.string(), header)) {
      recorded_ = *std::move(recorded);
      recorded_visits_ = recorded_.finished_visits();
      set_size(recorded_.bytes);
      return;
    }
    keep_sweep_of_another_job(text);
  }
  set_size(0);
  try {
    append(header + "\n");
  } catch (const Error&) {
    ::unlink(path_.c_str());  // without a header there is nothing to continue from
    throw;
  }
}

void RecordingMeter::keep_sweep_of_another_job(const std::string& text) {
  const int visits = visits_to_lose(path_, text);
  if (visits == 0) return;
  const auto old = copy_to_old_name(path_, text);
  notes_.push_back(format_text(
      "moved the interrupted sweep of another job, which has {}, to {}; to continue that sweep, move "
      "it back to {}",
      print_count(visits, "visit"), old.string(), path_.string()));
}

void RecordingMeter::append(const std::string& text) const {
  if (const int error = write_all(file_.get(), std::as_bytes(std::span(text))); error != 0) {
    throw_errno(error, path_.string(),
                format_text("{} and run again{}", writing_hint(error),
                            can_continue() ? ": the sweep then continues" : ""));
  }
}

void RecordingMeter::set_size(std::uint64_t bytes) const {
  if (const int error = set_size_of_file(file_.get(), bytes); error != 0)
    throw_errno(error, path_.string(), writing_hint(error));
}

void RecordingMeter::begin_round(const std::vector<std::string>& labels) {
  auto& rounds = recorded_.finished;
  const auto known = std::find_if(rounds.begin(), rounds.end(),
                                  [&](const RecordedRound& round) { return round.has_splits(labels); });
  answering_.reset();
  if (known != rounds.end()) {
    answering_ = std::move(*known);
    rounds.erase(known);
    return;
  }
  round_line_ = print_json_line(Object{{"round", recorded_.rounds++}, {"splits", labels}}) + "\n";
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
  const int visit = recorded_.visits[split.label]++;
  std::string lines = std::exchange(round_line_, "");
  for (const SplitSample& sample : measured) lines += line_of(split.label, visit, sample);
  append(lines);
  return measured;
}

void RecordingMeter::finish() { append(std::string(kSweepDone) + "\n"); }

bool RecordingMeter::can_continue() const { return zf::can_continue(path_, header_); }

}  // namespace zf
