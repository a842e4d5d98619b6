#include "trial/trial_runs.hpp"

#include <algorithm>
#include <filesystem>
#include <random>

#include "base/cpu_list.hpp"
#include "base/error.hpp"
#include "base/exit_after_signal.hpp"
#include "base/format.hpp"
#include "base/text.hpp"
#include "children/temporary_folder.hpp"
#include "compare/statistics.hpp"
#include "plan/plan_json.hpp"
#include "plan/process_binding.hpp"
#include "text/command_line.hpp"
#include "text/units.hpp"
#include "trial/trial_file.hpp"

namespace zf {
namespace {

bool is_unbound(const TrialSplit& split) { return split.split.shape.control == Control::unbound; }

/// Returns the command line of a run: the user's command, behind the words that give it its plan. `zf-tune
/// exec` starts it on the CPUs that this split and the plan's framework give it. A binding that this process
/// itself was started with is not the run's: the run must not find it.
std::vector<std::string> run_command_line(const std::vector<std::string>& command, const TrialSplit& split,
                                          const std::string& plan) {
  std::vector<std::string> words;
  if (is_unbound(split)) {
    words = {"env", "-u", "ZF_PLAN", "-u", kBindingVariable, "ZF_TUNE=off"};
  } else if (split.split.ranks.size() == 1 && !names_exec(command)) {
    words = {"/proc/self/exe", "exec", "--quiet", "--rank", "0", "--plan", plan, "--"};
  } else {
    words = {"env", "-u", kBindingVariable, format_text("ZF_PLAN={}", plan)};
  }
  words.insert(words.end(), command.begin(), command.end());
  return words;
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

TrialIdentity identity_of(const Trial& trial, const std::vector<TrialSplit>& splits,
                          const TrialRequest& request) {
  std::string cpus;
  for (const TrialSplit& split : splits) {
    cpus += format_text("{}{}:", cpus.empty() ? "" : "; ", split.split.label);
    for (const RankSplit& rank : split.split.ranks)
      cpus += format_text(" {}/{}/{}", print(rank.home), print(rank.training), print(rank.optimizer));
  }
  return {{"command", trial.command},
          {"--metric", trial.metric},
          {"--warmup", request.warmup ? std::to_string(*request.warmup) : ""},
          {"--values", request.values ? std::to_string(*request.values) : ""},
          {"direction", request.higher_is_better ? "higher is better" : "lower is better"},
          {"framework", name_of(request.framework)},
          {"set of splits", cpus}};
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
      const std::string name = format_text("plan-{}.json", i);
      plans_.push_back(folder_ / name);
      if (!is_unbound(splits[i])) folder_.write(name, print_plan(plan_for(splits[i])));
      active_.push_back(i);
    }
    file_.emplace(request.file, identity_of(result_.trial, splits, request), request.fresh);
    if (!file_->dropped().empty()) say(request, file_->dropped());
    if (file_->run_count() == 0) return;
    say(request, format_text("going on with the {} of an interrupted trial in {} (--fresh begins anew)",
                             print_count(file_->run_count(), "run"), file_->path().string()));
  }

  TrialResult run() {
    std::mt19937 random(request_.seed);
    order_ = active_;
    for (round_ = 0; round_ < request_.trials; ++round_) {
      std::shuffle(order_.begin(), order_.end(), random);
      for (done_in_round_ = 0; done_in_round_ < order_.size();) {
        const std::size_t split = order_[done_in_round_++];
        if (is_active(split) && !run_split(split)) return without_missing(std::move(result_));
      }
      if (round_ > 0) noise_ = noise_between_runs(result_.trial);
      give_up_hopeless();
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
      throw Error(exit_after_signal(request_.interrupt()),
                  "interrupted before every split had run once: no plan was written",
                  file_->run_count() > 0 ? "the same command goes on from here" : "");
    }
    if (!run.failure.empty() && is_unbound(result_.splits[split]) && round_ == 0) {
      result_.warnings.push_back(
          format_text("the unbound control is missing: without a plan, the command {}", run.failure));
      give_up(split);
      return true;
    }
    if (!run.failure.empty()) {
      throw TrialFailure(format_text("under \"{}\", the command {}", candidate.label, run.failure),
                         run.last_lines);
    }
    if (run.late) note_late(candidate.label, run);
    file_->add(candidate.label, round_, {run.values, run.hopeless});
    add(split, run.values, run.hopeless);
    spent_ns_ += run.duration_ns;
    ++spent_runs_;
    if (progress_) {
      const std::size_t left = left_in_round() + active_.size() * rounds_left();
      progress_({runs_, runs_ + left, static_cast<Nanoseconds>(left) * (spent_ns_ / spent_runs_),
                 candidate.label, run.values});
    }
    return true;
  }

  bool is_hopeless(std::size_t split, const std::vector<double>& present) const {
    return !request_.run_to_end && cannot_win(result_.trial, split, present, noise_);
  }

  void add(std::size_t split, const std::vector<double>& values, bool was_stopped_early) {
    result_.trial.candidates[split].runs.push_back(values);
    metric_has_matched_ = true;
    ++runs_;
    if (was_stopped_early && is_hopeless(split, {})) give_up_hopeless(split, "stopped");
    give_up_hopeless();
  }

  /// Gives up all splits that cannot win by the runs so far: each run may be a better one than those before.
  void give_up_hopeless() {
    for (const std::size_t split : std::vector<std::size_t>(active_)) {
      const bool has_run = !result_.trial.candidates[split].runs.empty();
      if (has_run && would_run_again(split) && is_hopeless(split, {}))
        give_up_hopeless(split, "not repeated");
    }
  }

  void give_up_hopeless(std::size_t split, const char* what) {
    give_up(split);
    const TrialCandidate& candidate = result_.trial.candidates[split];
    std::vector<double> values;
    for (const auto& run : candidate.runs) values.insert(values.end(), run.begin(), run.end());
    say(request_,
        format_text("\"{}\" cannot win, with a median of {:.4g}: {}", candidate.label, median(values), what));
  }

  void note_late(const std::string& label, const Run& run) {
    const std::string timeout = print_duration(request_.timeout_ns);
    say(request_,
        format_text("under \"{}\", the command was stopped after {} (--timeout). Its {} so far count. "
                    "--values ends runs earlier.",
                    label, timeout, print_count(run.values.size(), "value")));
    if (!was_late_) {
      result_.warnings.push_back(format_text(
          "runs were stopped after {} (--timeout): the values that they had printed count", timeout));
    }
    was_late_ = true;
  }

  bool is_active(std::size_t split) const {
    return std::find(active_.begin(), active_.end(), split) != active_.end();
  }

  std::size_t rounds_left() const { return static_cast<std::size_t>(request_.trials - round_ - 1); }

  /// Returns how many splits still run in this round.
  std::size_t left_in_round() const {
    return static_cast<std::size_t>(
        std::count_if(order_.begin() + static_cast<std::ptrdiff_t>(done_in_round_), order_.end(),
                      [&](std::size_t split) { return is_active(split); }));
  }

  bool would_run_again(std::size_t split) const {
    return rounds_left() > 0 || std::find(order_.begin() + static_cast<std::ptrdiff_t>(done_in_round_),
                                          order_.end(), split) != order_.end();
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
  std::vector<std::size_t> order_;  ///< of the splits in this round
  std::size_t done_in_round_ = 0;   ///< so many of order_ have had their turn
  std::optional<double> noise_;
  bool metric_has_matched_ = false;
  bool was_late_ = false;
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
