#include "survey/tune_classes.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <limits>
#include <list>
#include <span>
#include <sstream>
#include <thread>

#include "base/error.hpp"
#include "base/file_descriptor.hpp"
#include "base/format.hpp"
#include "base/text.hpp"
#include "children/run_command.hpp"
#include "ipc/child.hpp"
#include "os/file.hpp"
#include "os/host_name.hpp"
#include "os/same_file.hpp"
#include "os/standard_streams.hpp"
#include "plan/plan_json.hpp"
#include "text/command_line.hpp"

namespace zf {
namespace {

constexpr auto kPoll = std::chrono::milliseconds(100);

bool is_there(const std::filesystem::path& path) {
  std::error_code unknown;
  return std::filesystem::exists(path, unknown);
}

/// Replaces every `name` in a word.
std::string replaced(std::string word, std::string_view name, const std::string& value) {
  for (std::size_t at = word.find(name); at != std::string::npos; at = word.find(name, at + value.size()))
    word.replace(at, name.size(), value);
  return word;
}

/// Holds the mark of a class: a file with a lock, and who made it. A lock tells a living run from a killed
/// one. Other hosts may not see it, so only a mark of this host is taken over.
class Mark {
 public:
  explicit Mark(const ClassTuning& tuning) : path_(tuning.mark()) {
    bool is_new = false;
    bool is_locked = false;
    do {
      constexpr int kFlags = O_RDWR | O_NOFOLLOW | O_CLOEXEC;
      file_ = FileDescriptor(::open(path_.c_str(), kFlags | O_CREAT | O_EXCL, 0644));
      is_new = file_.valid();
      if (!is_new && errno == EEXIST) file_ = FileDescriptor(::open(path_.c_str(), kFlags));
      if (!file_.valid() && errno == ENOENT) continue;  // another run has just removed it
      if (!file_.valid()) throw_errno(errno, path_.string());
      is_locked = ::flock(file_.get(), LOCK_EX | LOCK_NB) == 0;
      if (!is_locked && !has_no_locks(errno)) return;
    } while (!file_.valid() || !is_at(path_, file_));
    const std::string made = text();
    is_ours_ = is_locked ? made.empty() || (made.starts_with(host_name() + " ") && !was_left()) : is_new;
    if (is_ours_) write(format_text("{} {} {}", host_name(), ::getpid(), tuning.node));
  }

  bool is_ours() const { return is_ours_; }
  /// Returns whether its run has ended, and left it.
  bool was_left() const { return text().ends_with(kLeft); }
  /// Returns the host and the process of its run, and the node.
  std::string text() const {
    std::string text(512, '\0');
    text.resize(read_at(path_, file_.get(), 0, std::as_writable_bytes(std::span(text))));
    return one_line(text);
  }
  void remove() const { ::unlink(path_.c_str()); }
  void leave() const { write(text() + std::string(kLeft)); }

 private:
  static constexpr std::string_view kLeft = " left";

  void write(const std::string& text) const {
    int error = set_size_of_file(file_.get(), 0);
    if (error == 0) error = write_all_at(file_.get(), 0, std::as_bytes(std::span(text)));
    if (error != 0) throw_errno(error, path_.string());
  }

  std::filesystem::path path_;
  FileDescriptor file_;
  bool is_ours_ = false;
};

/// Tunes one class, in a process of its own.
class OneTuning {
 public:
  OneTuning(const ClassTuning& tuning, const std::function<bool()>& stop) : tuning_(tuning), stop_(stop) {}

  /// Returns whether the class has its plan. Prints a line.
  bool run() const {
    try {
      const Mark mark(tuning_);
      if (!mark.is_ours() && mark.was_left() && is_there(tuning_.fresh()))
        return take_plan(mark, "was made by the command of an earlier run");
      if (!mark.is_ours()) {
        say(format_text("is tuned by another run ({}); if that is not so, remove {}", mark.text(),
                        tuning_.mark().string()));
        return false;
      }
      if (is_there(tuning_.plan)) {  // another run was faster
        mark.remove();
        return true;
      }
      if (is_there(tuning_.fresh())) return take_plan(mark, "was left by a run that was killed");
      return start(mark);
    } catch (const Error& error) {
      say(error.what());
      return false;
    }
  }

 private:
  void say(std::string_view text) const {
    print_stdout_text(format_text("{}: {}\n", tuning_.plan.stem().string(), one_line(text)));
    flush_stdout();
  }

  bool start(const Mark& mark) const {
    const FileDescriptor log(
        ::open(tuning_.log().c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644));
    if (!log.valid()) throw_errno(errno, tuning_.log().string());
    say("tuning " + tuning_.node);
    const CommandEnd end = run_command(tuning_.command, std::numeric_limits<Nanoseconds>::max(), stop_,
                                       [&](std::string_view line) {
                                         const std::string text = std::string(line) + "\n";
                                         (void)write_all(log.get(), std::as_bytes(std::span(text)));
                                       });
    if (end.why == CommandEnd::Why::ended && end.status.code == 0) {
      if (appears(tuning_.fresh())) return take_plan(mark, "was tuned on " + tuning_.node);
      mark.leave();
      say(
          format_text("the command ended and left no plan: it must wait for its job (sbatch needs --wait). "
                      "Look in {}, then remove {}",
                      tuning_.log().string(), tuning_.mark().string()));
      return false;
    }
    const bool has_ended = end.why == CommandEnd::Why::ended;
    const std::string what =
        format_text("{} {}; see {}", tuning_.node, has_ended ? describe(end.status) : "was interrupted",
                    tuning_.log().string());
    // Here the command has ended. What it started on the node may live on: ssh says 255 for a lost
    // connection.
    constexpr int kLost = 255;
    if (has_ended && end.status.code != kLost) {
      mark.remove();
      say(what);
    } else {
      mark.leave();
      say(format_text("{}. If nothing runs there any more, remove {}", what, tuning_.mark().string()));
    }
    return false;
  }

  /// Waits until a shared file system shows what another host has written.
  static bool appears(const std::filesystem::path& path) {
    for (int i = 0; i < 100; ++i) {
      if (is_there(path)) return true;
      std::this_thread::sleep_for(kPoll);
    }
    return false;
  }

  bool take_plan(const Mark& mark, std::string_view how) const {
    const Plan plan = load_plan(tuning_.fresh());
    const std::string name = tuning_.plan.stem().string();
    const bool by_places = name.find('+') != std::string::npos;
    const std::string is = by_places ? name_of(plan.machine, plan.gpus) : plan.machine.fingerprint;
    if (is != name) {
      mark.remove();
      throw Error(Exit::stale_plan, format_text("{}: is a plan of class {}", tuning_.fresh().string(), is),
                  "the node is no more what it was: remove the file, and survey it again");
    }
    std::error_code error;
    std::filesystem::rename(tuning_.fresh(), tuning_.plan, error);
    if (error) throw_errno(error.value(), tuning_.plan.string());
    std::filesystem::remove(tuning_.fresh().string() + ".samples.jsonl",
                            error);  // else the next tuning goes on there
    mark.remove();
    say(how);
    return true;
  }

  const ClassTuning& tuning_;
  const std::function<bool()>& stop_;
};

/// Returns whether the folder has the plan that these nodes take, or one that was made for their places of
/// GPUs.
bool has_plan(const NodeClass& one, const std::filesystem::path& plan, const std::filesystem::path& folder,
              bool in_several_places) {
  if (is_there(plan)) return true;
  if (!in_several_places) return is_there(folder / (name_of(one.machine, one.gpus) + ".json"));
  const std::filesystem::path general = folder / (one.machine.fingerprint + ".json");
  return is_there(general) && load_plan(general).gpus == one.gpus;
}

}  // namespace

std::vector<std::string> words_of(const std::string& command, const std::string& node,
                                  const std::vector<std::string>& tune) {
  for (const char* const needed : {"{node}", "{command}"}) {
    if (command.find(needed) != std::string::npos) continue;
    throw Error(Exit::usage,
                format_text("zf-tune survey: --tune: \"{}\" does not say where {} goes", command, needed),
                "write it as in --tune 'ssh {node} {command}'");
  }
  std::vector<std::string> quoted;
  for (const std::string& word : tune) quoted.push_back(shell_quoted(word));
  std::vector<std::string> words;
  std::istringstream given(command);
  for (std::string word; given >> word;)
    words.push_back(replaced(replaced(word, "{node}", node), "{command}", join_text(quoted, " ")));
  return words;
}

std::vector<ClassTuning> tunings_of(const std::vector<NodeClass>& classes,
                                    const std::filesystem::path& folder, const std::string& command,
                                    const std::vector<std::string>& options) {
  const auto places_of = [&](const std::string& fingerprint) {
    return std::count_if(classes.begin(), classes.end(),
                         [&](const NodeClass& one) { return one.machine.fingerprint == fingerprint; });
  };
  std::vector<ClassTuning> tunings;
  words_of(command, "", {});
  for (const NodeClass& one : classes) {
    const std::string& fingerprint = one.machine.fingerprint;
    const bool in_several_places = places_of(fingerprint) > 1;
    const std::string name = in_several_places ? name_of(one.machine, one.gpus) : fingerprint;
    ClassTuning tuning{one.typical, std::filesystem::absolute(folder) / (name + ".json"), {}};
    if (one.typical.empty() || has_plan(one, tuning.plan, folder, in_several_places)) continue;
    std::vector<std::string> tune{"zf-tune", "tune", "-q", "-o", tuning.fresh().string()};
    tune.insert(tune.end(), options.begin(), options.end());
    tuning.command = words_of(command, one.typical, tune);
    tunings.push_back(std::move(tuning));
  }
  return tunings;
}

bool tune_classes(const std::vector<ClassTuning>& tunings, int at_once, const std::function<bool()>& stop) {
  std::list<Child> running;
  bool all = true;
  bool stopped = false;
  auto next = tunings.begin();
  while (!running.empty() || (next != tunings.end() && !stopped)) {
    if (!stopped && stop()) {
      stopped = true;
      for (const Child& child : running) child.signal(SIGTERM);  // its own watch stops its command
    }
    std::erase_if(running, [&](Child& child) {
      if (!child.has_ended()) return false;
      all = child.reap().code == 0 && all;
      return true;
    });
    while (!stopped && next != tunings.end() && running.size() < static_cast<std::size_t>(at_once)) {
      const ClassTuning& tuning = *next++;
      running.push_back(fork_child([&] { return OneTuning(tuning, stop).run() ? 0 : 1; }, Reach::process,
                                   "cannot start a tuning"));
    }
    if (!running.empty()) std::this_thread::sleep_for(kPoll);
  }
  return all && next == tunings.end();
}

}  // namespace zf
