#include "survey/tune_classes.hpp"

#include <fcntl.h>
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
#include "measure/sample_file.hpp"
#include "os/file.hpp"
#include "os/host_name.hpp"
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

/// Makes the mark of a class, a file with the host, the process and the node, unless it is there. Who made it
/// may be killed, and what it started on the node, or queued for it, may live on. So only the run that saw
/// its command end, or that takes the plan, removes it.
bool make_mark(const ClassTuning& tuning) {
  constexpr int kFlags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
  const FileDescriptor file(::open(tuning.mark().c_str(), kFlags, 0644));
  int error = file.valid() ? 0 : errno;
  if (error == EEXIST) return false;
  const std::string text = format_text("{} {} {}", host_name(), ::getpid(), tuning.node);
  if (error == 0) error = write_all_at(file.get(), 0, std::as_bytes(std::span(text)));
  if (error == 0) return true;
  if (file.valid()) ::unlink(tuning.mark().c_str());  // nothing is started
  throw_errno(error, tuning.mark().string());
}

std::string text_of_mark(const ClassTuning& tuning) {
  const FileDescriptor file(::open(tuning.mark().c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  std::string text(512, '\0');
  text.resize(file.valid() ? read_at(tuning.mark(), file.get(), 0, std::as_writable_bytes(std::span(text)))
                           : 0);
  return one_line(text);
}

/// Tunes one class, in a process of its own.
class OneTuning {
 public:
  OneTuning(const ClassTuning& tuning, const std::function<bool()>& stop) : tuning_(tuning), stop_(stop) {}

  /// Returns whether the class has its plan. Prints a line.
  bool run() const {
    try {
      if (is_there(tuning_.fresh()) && !was_interrupted(tuning_.fresh()))
        return take_plan("was made by an earlier run");
      if (!make_mark(tuning_)) {
        say(format_text("may still be tuned by another run ({}); if it is not, remove {}",
                        text_of_mark(tuning_), tuning_.mark().string()));
        return false;
      }
      if (!is_there(tuning_.plan)) return start();
      remove_mark();  // another run was faster
      return true;
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

  void remove_mark() const { ::unlink(tuning_.mark().c_str()); }

  bool start() const {
    const FileDescriptor log(
        ::open(tuning_.log().c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644));
    if (!log.valid()) {
      const int error = errno;
      remove_mark();
      throw_errno(error, tuning_.log().string());
    }
    ::unlink(tuning_.fresh().c_str());  // of an interrupted sweep: its samples go on
    say("tuning " + tuning_.node);
    const CommandEnd end = run_command(tuning_.command, std::numeric_limits<Nanoseconds>::max(), stop_,
                                       [&](std::string_view line) {
                                         const std::string text = std::string(line) + "\n";
                                         (void)write_all(log.get(), std::as_bytes(std::span(text)));
                                       });
    if (end.why == CommandEnd::Why::ended && end.status.code == 0) {
      if (plan_appears()) return take_plan("was tuned on " + tuning_.node);
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
      remove_mark();
      say(what);
    } else {
      say(format_text("{}. If nothing runs there any more, remove {}", what, tuning_.mark().string()));
    }
    return false;
  }

  /// Waits until a shared file system shows what another host has written.
  bool plan_appears() const {
    for (int i = 0; i < 100; ++i) {
      if (is_there(tuning_.fresh()) || is_there(tuning_.plan)) return true;
      std::this_thread::sleep_for(kPoll);
    }
    return false;
  }

  /// Takes the plan that the node has written, unless another run was faster.
  bool take_plan(std::string_view how) const {
    if (is_there(tuning_.plan)) {
      say("has a plan of another run");
      return true;
    }
    const Plan plan = load_plan(tuning_.fresh());
    const std::string name = tuning_.plan.stem().string();
    const bool by_places = name.find('+') != std::string::npos;
    const std::string is = by_places ? name_of(plan.machine, plan.gpus) : plan.machine.fingerprint;
    if (is != name) {
      remove_mark();
      throw Error(Exit::stale_plan, format_text("{}: is a plan of class {}", tuning_.fresh().string(), is),
                  "the node is no more what it was: remove the file, and survey it again");
    }
    std::error_code error;
    std::filesystem::rename(tuning_.fresh(), tuning_.plan, error);
    if (error) throw_errno(error.value(), tuning_.plan.string());
    std::filesystem::remove(sample_file_of(tuning_.fresh()), error);
    remove_mark();
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
