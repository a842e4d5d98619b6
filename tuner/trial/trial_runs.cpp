#include "trial/trial_runs.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <deque>
#include <filesystem>
#include <numeric>
#include <random>

#include "base/error.hpp"
#include "base/text.hpp"
#include "children/run_command.hpp"
#include "children/temporary_folder.hpp"
#include "os/file.hpp"
#include "plan/plan_json.hpp"
#include "plan/process_binding.hpp"
#include "text/command_line.hpp"
#include "text/units.hpp"
#include "trial/metric_matches.hpp"

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
  bool stopped = false;
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

Run run_once(const std::vector<std::string>& words, const Metric& metric, const TrialRequest& request) {
  MetricMatches matches(metric);
  std::deque<std::string> last;
  const auto listen = [&](std::string_view line) {
    if (request.on_line) request.on_line(line);
    matches.add(line);
    last.emplace_back(line.substr(0, kShownOfLine));
    if (last.size() > kLastLines) last.pop_front();
  };
  const CommandEnd end = run_command(words, now_ns() + request.timeout_ns, request.stop, listen);
  Run run;
  run.last_lines.assign(last.begin(), last.end());
  if (end.why == CommandEnd::Why::late) {
    run.failure = fmt::format("was stopped after {} (--timeout)", print_duration(request.timeout_ns));
  } else if (end.why == CommandEnd::Why::ended && end.status.code != 0) {
    run.failure = describe(end.status);
  } else if (end.why == CommandEnd::Why::ended) {
    matches.find(request.stop);
    run.failure = why_unusable(matches, metric, request);
  }
  // A signal that stops us may have ended the command too, or kept us from reading all of its output.
  run.stopped = end.why == CommandEnd::Why::stopped || request.stop();
  const auto warmup = static_cast<std::ptrdiff_t>(warmup_of(matches.values().size(), request.warmup));
  run.values.assign(matches.values().begin() + warmup, matches.values().end());
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

}  // namespace

TrialResult run_trial(const std::vector<TrialSplit>& splits,
                      const std::function<Plan(const TrialSplit&)>& plan_for, const Metric& metric,
                      const TrialRequest& request,
                      const std::function<void(const TrialProgress&)>& progress) {
  TrialResult result;
  result.splits = splits;
  result.trial.command = quoted_command(request.command);
  result.trial.metric = metric.pattern();
  result.trial.higher_is_better = request.higher_is_better;

  const TemporaryFolder folder("zf-tune-trial");
  std::vector<std::string> plans;
  for (std::size_t i = 0; i < splits.size(); ++i) {
    result.trial.candidates.push_back(trial_candidate(splits[i].split));
    plans.push_back(folder / fmt::format("plan-{}.json", i));
    if (!is_unbound(splits[i])) write_text_file_atomically(plans.back(), print_plan(plan_for(splits[i])));
  }

  std::mt19937 random(request.seed);
  std::vector<std::size_t> order(splits.size());
  std::iota(order.begin(), order.end(), 0);
  std::size_t runs = 0;
  for (int round = 0; round < request.trials; ++round) {
    std::shuffle(order.begin(), order.end(), random);
    for (const std::size_t i : std::vector(order)) {
      Run run = run_once(run_command_line(request.command, splits[i], plans[i]), metric, request);
      if (run.stopped && round > 0) return without_missing(std::move(result));
      if (run.stopped)
        throw Error(Exit::runtime_error, "interrupted before every split had run once: no plan was written");
      const std::string& label = result.trial.candidates[i].label;
      if (!run.failure.empty() && is_unbound(splits[i]) && round == 0) {
        result.warnings.push_back(
            fmt::format("the unbound control is missing: without a plan, the command {}", run.failure));
        order.erase(std::find(order.begin(), order.end(), i));
        continue;
      }
      if (!run.failure.empty()) {
        throw TrialFailure(fmt::format("under \"{}\", the command {}", label, run.failure), run.last_lines);
      }
      ++runs;
      if (progress) {
        const auto all = order.size() * static_cast<std::size_t>(request.trials);
        progress({runs, all, label, run.values});
      }
      result.trial.candidates[i].runs.push_back(std::move(run.values));
    }
  }
  return without_missing(std::move(result));
}

}  // namespace zf
