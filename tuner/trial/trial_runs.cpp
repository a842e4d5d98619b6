#include "trial/trial_runs.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <deque>
#include <filesystem>
#include <numeric>
#include <random>

#include "base/cpu_list.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "children/run_command.hpp"
#include "children/temporary_folder.hpp"
#include "os/file.hpp"
#include "plan/plan_json.hpp"
#include "plan/process_binding.hpp"
#include "text/command_line.hpp"
#include "text/statistics.hpp"
#include "text/units.hpp"
#include "trial/metric_matches.hpp"
#include "trial/trial_file.hpp"

namespace zf {
namespace {

constexpr std::size_t kLastLines = 10;
constexpr std::size_t kShownOfLine = 300;

/// Returns whether the command calls `zf-tune exec` itself. If so, it must not be bound before that.
bool calls_exec(const std::vector<std::string>& words) {
  for (std::size_t i = 0; i + 1 < words.size(); ++i) {
    if (std::filesystem::path(words[i]).filename() == "zf-tune" && words[i + 1] == "exec") return true;
  }
  return false;
}

bool is_unbound(const TrialSplit& split) { return split.split.shape.control == Control::unbound; }

/// Returns the command line of a run: the user's command, behind the words that give it its plan. `zf-tune
/// exec` starts it on the CPUs that this split and the plan's framework give it. A binding that this process
/// itself was started with is not the run's: the run must not find it.
std::vector<std::string> run_command_line(const std::vector<std::string>& command, const TrialSplit& split,
                                          const std::string& plan) {
  std::vector<std::string> words;
  if (is_unbound(split)) {
    words = {"env", "-u", "ZF_PLAN", "-u", kBindingVariable, "ZF_TUNE=off"};
  } else if (split.split.ranks.size() == 1 && !calls_exec(command)) {
    words = {"/proc/self/exe", "exec", "--quiet", "--rank", "0", "--plan", plan, "--"};
  } else {
    words = {"env", "-u", kBindingVariable, fmt::format("ZF_PLAN={}", plan)};
  }
  words.insert(words.end(), command.begin(), command.end());
  return words;
}

struct Run {
  std::vector<double> values;  ///< without the warm-up
  bool stopped = false;        ///< the user stopped it
  bool hopeless = false;       ///< we stopped it, because it could not win
  Nanoseconds duration_ns = 0;
  std::string failure;                  ///< what went wrong; empty if nothing did
  std::vector<std::string> last_lines;  ///< of its output
};

/// Says why the matches cannot be used. Empty if they can.
std::string why_unusable(const MetricMatches& matches, const Metric& metric, const TrialRequest& request) {
  const std::string pattern = shell_quoted(metric.pattern());
  const std::size_t values = matches.values().size();
  if (values == 0 && matches.odd()) {
    return fmt::format("printed {} where --metric {} matches, which is not a positive number",
                       shell_quoted(one_line(matches.odd()->substr(0, kShownOfLine))), pattern);
  }
  if (values == 0) return fmt::format("printed nothing that --metric {} matches", pattern);
  if (request.warmup && static_cast<std::size_t>(*request.warmup) >= values) {
    return fmt::format("printed {} value{}, all of which --warmup {} discards", values,
                       values == 1 ? "" : "s", *request.warmup);
  }
  return "";
}

void say(const TrialRequest& request, const std::string& line) {
  if (request.say) request.say(line);
}

std::vector<double> without_warmup(const MetricMatches& matches, const TrialRequest& request) {
  const auto warmup = static_cast<std::ptrdiff_t>(warmup_of(matches.values().size(), request.warmup));
  return {matches.values().begin() + warmup, matches.values().end()};
}

/// What looks at the output of a run are told, and what they answer.
struct RunWatch {
  bool metric_has_matched = false;                             ///< in an earlier run
  std::function<bool(const std::vector<double>&)> cannot_win;  ///< asked with the values so far
};

/// Looks at the output of a run that goes on: after 5, 10, 20, ... seconds, because each look takes a CPU
/// from the command for a moment.
class Onlooker {
 public:
  Onlooker(MetricMatches& matches, const TrialRequest& request, const RunWatch& watch)
      : matches_(matches), request_(request), watch_(watch), metric_is_known_(watch.metric_has_matched) {}

  /// Returns true if the run cannot win any more.
  bool wants_end() {
    const Nanoseconds passed = now_ns() - started_;
    if (passed < next_look_) return false;
    // One look comes when the user's patience with the metric ends.
    next_look_ =
        next_look_ < kMetricPatienceNs ? std::min(2 * next_look_, kMetricPatienceNs) : 2 * next_look_;
    matches_.find(request_.stop);
    say_first_value();
    if (!metric_is_known_ && passed >= kMetricPatienceNs) {
      metric_is_known_ = true;
      say(request_,
          fmt::format("--metric has matched none of the {} of the first {}. --show-output prints them.",
                      print_count(matches_.line_count(), "line"), print_duration(kMetricPatienceNs)));
    }
    return watch_.cannot_win(without_warmup(matches_, request_));
  }

  /// Says once in a trial that the metric matches.
  void say_first_value() {
    if (metric_is_known_ || matches_.values().empty()) return;
    metric_is_known_ = true;
    say(request_, fmt::format("--metric matches: the first value is {:.6g}", matches_.values().front()));
  }

 private:
  MetricMatches& matches_;
  const TrialRequest& request_;
  const RunWatch& watch_;
  Nanoseconds started_ = now_ns();
  Nanoseconds next_look_ = 5 * kSecondNs;  ///< since started_
  bool metric_is_known_;                   ///< the user was told whether it matches
};

Run run_once(const std::vector<std::string>& words, const Metric& metric, const TrialRequest& request,
             const RunWatch& watch) {
  MetricMatches matches(metric);
  std::deque<std::string> last;
  const auto listen = [&](std::string_view line) {
    if (request.on_line) request.on_line(line);
    matches.add(line);
    last.emplace_back(line.substr(0, kShownOfLine));
    if (last.size() > kLastLines) last.pop_front();
  };
  Run run;
  Onlooker onlooker(matches, request, watch);
  const auto stop = [&] {
    run.hopeless = run.hopeless || (!request.stop() && onlooker.wants_end());
    return run.hopeless || request.stop();
  };
  const Nanoseconds started = now_ns();
  const CommandEnd end = run_command(words, started + request.timeout_ns, stop, listen);
  run.duration_ns = now_ns() - started;
  run.last_lines.assign(last.begin(), last.end());
  if (end.why == CommandEnd::Why::late) {
    run.failure = fmt::format("was stopped after {} (--timeout)", print_duration(request.timeout_ns));
  } else if (end.why == CommandEnd::Why::ended && end.status.code != 0) {
    run.failure = describe(end.status);
  } else if (end.why == CommandEnd::Why::ended) {
    matches.find(request.stop);
    run.failure = why_unusable(matches, metric, request);
    onlooker.say_first_value();
  }
  // A signal that stops us may have ended the command too, or kept us from reading all of its output.
  run.stopped = request.stop();
  run.values = without_warmup(matches, request);
  return run;
}

TrialCandidate trial_candidate(const Split& split) {
  TrialCandidate candidate;
  candidate.label = split.label;
  candidate.control = split.shape.control;
  candidate.shared = split.shape.shared;
  for (const RankSplit& rank : split.ranks) {
    candidate.pool_threads = std::max(candidate.pool_threads, static_cast<int>(rank.pool.size()));
  }
  return candidate;
}

std::string quoted_command(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) {
    if (!text.empty()) text += ' ';
    text += shell_quoted(word);
  }
  return text;
}

/// Removes the splits that never ran.
TrialResult without_missing(TrialResult result) {
  for (std::size_t i = result.splits.size(); i-- > 0;) {
    if (!result.trial.candidates[i].runs.empty()) continue;
    const auto place = static_cast<std::ptrdiff_t>(i);
    result.trial.candidates.erase(result.trial.candidates.begin() + place);
    result.splits.erase(result.splits.begin() + place);
  }
  return result;
}

/// Returns what the runs of two trials must have in common to be compared, as a text: the command, how its
/// output is read, and on which CPUs each split has the ranks.
std::string identity_of(const Trial& trial, const std::vector<TrialSplit>& splits,
                        const TrialRequest& request) {
  std::string text = fmt::format("{}; {}; warmup {}; {} is better", trial.command, trial.metric,
                                 request.warmup.value_or(-1), request.higher_is_better ? "higher" : "lower");
  for (const TrialSplit& split : splits) {
    text += fmt::format("; {}:", split.split.label);
    for (const RankSplit& rank : split.split.ranks)
      text += fmt::format(" {}/{}/{}", print(rank.home), print(rank.training), print(rank.optimizer));
  }
  return text;
}

/// The rounds of a trial.
class Rounds {
 public:
  Rounds(const std::vector<TrialSplit>& splits, const std::function<Plan(const TrialSplit&)>& plan_for,
         const Metric& metric, const TrialRequest& request,
         const std::function<void(const TrialProgress&)>& progress)
      : metric_(metric), request_(request), progress_(progress), folder_("zf-tune-trial") {
    result_.splits = splits;
    result_.trial.command = quoted_command(request.command);
    result_.trial.metric = metric.pattern();
    result_.trial.higher_is_better = request.higher_is_better;
    for (std::size_t i = 0; i < splits.size(); ++i) {
      result_.trial.candidates.push_back(trial_candidate(splits[i].split));
      plans_.push_back(folder_ / fmt::format("plan-{}.json", i));
      if (!is_unbound(splits[i])) write_text_file_atomically(plans_.back(), print_plan(plan_for(splits[i])));
      active_.push_back(i);
    }
    file_.emplace(request.file, identity_of(result_.trial, splits, request), request.fresh);
    if (file_->run_count() == 0) return;
    say(request, fmt::format("going on with the {} of an interrupted trial in {} (--fresh begins anew)",
                             print_count(file_->run_count(), "run"), file_->path().string()));
  }

  TrialResult run() {
    std::mt19937 random(request_.seed);
    std::vector<std::size_t> order(active_);
    for (round_ = 0; round_ < request_.trials; ++round_) {
      std::shuffle(order.begin(), order.end(), random);
      left_in_round_ = active_.size();
      for (const std::size_t split : order) {
        if (std::find(active_.begin(), active_.end(), split) == active_.end()) continue;
        --left_in_round_;
        if (!run_split(split)) return without_missing(std::move(result_));
      }
      if (round_ > 0) noise_ = noise_between_runs(result_.trial);
    }
    return without_missing(std::move(result_));
  }

 private:
  /// Runs the command under a split, or takes the run from the file. Returns false if the user stopped the
  /// trial.
  bool run_split(std::size_t split) {
    TrialCandidate& candidate = result_.trial.candidates[split];
    if (const RecordedRun* const recorded = file_->find(candidate.label, round_)) {
      add(split, recorded->values, recorded->was_stopped_early);
      return true;
    }
    const RunWatch watch{metric_has_matched_,
                         [&](const std::vector<double>& present) { return is_hopeless(split, present); }};
    const Run run = run_once(run_command_line(request_.command, result_.splits[split], plans_[split]),
                             metric_, request_, watch);
    if (run.stopped && round_ > 0) return false;
    if (run.stopped) {
      throw Error(Exit::runtime_error, "interrupted before every split had run once: no plan was written",
                  file_->run_count() > 0 ? "the same command goes on from here" : "");
    }
    if (!run.failure.empty() && is_unbound(result_.splits[split]) && round_ == 0) {
      result_.warnings.push_back(
          fmt::format("the unbound control is missing: without a plan, the command {}", run.failure));
      give_up(split);
      return true;
    }
    if (!run.failure.empty()) {
      throw TrialFailure(fmt::format("under \"{}\", the command {}", candidate.label, run.failure),
                         run.last_lines);
    }
    file_->add(candidate.label, round_, {run.values, run.hopeless});
    add(split, run.values, run.hopeless);
    spent_ns_ += run.duration_ns;
    ++spent_runs_;
    if (progress_) {
      const std::size_t left =
          left_in_round_ + active_.size() * static_cast<std::size_t>(request_.trials - round_ - 1);
      progress_({runs_, runs_ + left, static_cast<Nanoseconds>(left) * (spent_ns_ / spent_runs_),
                 candidate.label, run.values});
    }
    return true;
  }

  bool is_hopeless(std::size_t split, const std::vector<double>& present) const {
    return !request_.run_to_end && cannot_win(result_.trial, split, present, noise_);
  }

  void add(std::size_t split, const std::vector<double>& values, bool was_stopped_early) {
    TrialCandidate& candidate = result_.trial.candidates[split];
    candidate.runs.push_back(values);
    metric_has_matched_ = true;
    ++runs_;
    if (!is_hopeless(split, {})) return;
    give_up(split);
    say(request_, fmt::format("\"{}\" cannot win, with a median of {:.4g}: {}", candidate.label,
                              median(values), was_stopped_early ? "stopped" : "not repeated"));
  }

  void give_up(std::size_t split) { std::erase(active_, split); }

  const Metric& metric_;
  const TrialRequest& request_;
  const std::function<void(const TrialProgress&)>& progress_;
  const TemporaryFolder folder_;
  std::vector<std::string> plans_;  ///< the file of each split
  TrialResult result_;
  std::optional<TrialFile> file_;
  std::vector<std::size_t> active_;  ///< splits that are still run
  int round_ = 0;
  std::size_t left_in_round_ = 0;
  std::optional<double> noise_;
  bool metric_has_matched_ = false;
  std::size_t runs_ = 0;
  Nanoseconds spent_ns_ = 0;
  int spent_runs_ = 0;
};

}  // namespace

TrialResult run_trial(const std::vector<TrialSplit>& splits,
                      const std::function<Plan(const TrialSplit&)>& plan_for, const Metric& metric,
                      const TrialRequest& request,
                      const std::function<void(const TrialProgress&)>& progress) {
  return Rounds(splits, plan_for, metric, request, progress).run();
}

}  // namespace zf
