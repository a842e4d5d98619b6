#include "tuner/trial_runs.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <numeric>
#include <random>

#include "base/error.hpp"
#include "base/plain_text.hpp"
#include "os/file.hpp"
#include "plan/plan_json.hpp"
#include "tuner/command_line.hpp"
#include "tuner/job.hpp"
#include "tuner/values.hpp"

namespace zf {
namespace {

constexpr std::size_t kLastLines = 10;
constexpr std::size_t kShownOfLine = 300;

/// A folder for the plans that the runs read; gone with its content at the end.
class Folder {
 public:
  Folder() {
    std::string path = std::filesystem::temp_directory_path() / "zf-tune-trial-XXXXXX";
    if (::mkdtemp(path.data()) == nullptr) throw_errno(errno, "cannot make the folder " + path);
    path_ = path;
  }
  ~Folder() {
    std::error_code ignored;  // a temporary folder that stays is no reason to lose the result
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

/// Whether the command binds by itself: then it must not be bound before.
bool calls_exec(const std::vector<std::string>& words) {
  for (std::size_t i = 0; i + 1 < words.size(); ++i) {
    if (std::filesystem::path(words[i]).filename() == "zf-tune" && words[i + 1] == "exec") return true;
  }
  return false;
}

bool is_unbound(const TrialSplit& split) { return split.split.shape.control == Control::unbound; }

/// What a run starts: the user's command behind what gives it its plan.
std::vector<std::string> words_of(const std::vector<std::string>& command, const TrialSplit& split,
                                  const std::string& plan) {
  std::vector<std::string> words;
  if (is_unbound(split)) {
    words = {"env", "-u", "ZF_PLAN", "ZF_TUNE=off"};
  } else if (split.split.ranks.size() == 1 && !calls_exec(command)) {
    words = {"/proc/self/exe", "exec", "--quiet", "--rank", "0", "--plan", plan, "--"};
  } else {
    words = {"env", fmt::format("ZF_PLAN={}", plan)};
  }
  words.insert(words.end(), command.begin(), command.end());
  return words;
}

struct Run {
  std::vector<double> values;  ///< without the warm-up
  bool stopped = false;
  std::string failure;  ///< empty: it went well
};

/// What the values are not good for; empty: nothing. `odd`: the first match that is no number.
std::string complaint(std::size_t values, const std::string& odd, const Metric& metric,
                      const TrialRequest& request) {
  const std::string pattern = shell_quoted(metric.pattern());
  if (values == 0 && !odd.empty()) {
    return fmt::format("printed {} where --metric {} matches, which is no positive number",
                       shell_quoted(one_line(odd.substr(0, kShownOfLine))), pattern);
  }
  if (values == 0) return fmt::format("printed nothing that --metric {} matches", pattern);
  if (request.warmup && static_cast<std::size_t>(*request.warmup) >= values) {
    return fmt::format("printed {} value{}, all of which --warmup {} discards", values,
                       values == 1 ? "" : "s", *request.warmup);
  }
  return "";
}

Run run_once(const std::vector<std::string>& words, const Metric& metric, const TrialRequest& request) {
  Run run;
  std::string odd;
  std::deque<std::string> last;
  const Nanoseconds deadline_ns = now_ns() + request.timeout_ns;
  const auto listen = [&](std::string_view line) {
    if (request.on_line) request.on_line(line);
    // Of a run that ends for another reason no value is taken: then no match is worth its time.
    const auto match = now_ns() < deadline_ns && !request.stop() ? metric.match_in(line) : std::nullopt;
    if (const auto value = metric_value(match.value_or(""))) {
      run.values.push_back(*value);
    } else if (odd.empty()) {
      odd = match.value_or("");
    }
    last.emplace_back(line.substr(0, kShownOfLine));
    if (last.size() > kLastLines) last.pop_front();
  };
  const JobEnd end = run_job(words, deadline_ns, request.stop, listen);
  run.stopped = end.why == JobEnd::Why::stopped;
  if (end.why == JobEnd::Why::late) {
    run.failure = fmt::format("was ended after {} (--timeout)", print_duration(request.timeout_ns));
  } else if (end.ending.exit_status != 0) {
    run.failure = text_of(end.ending);
  } else {
    run.failure = complaint(run.values.size(), odd, metric, request);
  }
  if (!run.failure.empty()) {
    run.failure += last.empty() ? "; it said nothing" : "; its last lines:";
    for (const std::string& line : last) run.failure += fmt::format("\n  | {}", line);
  }
  const auto warmup = static_cast<std::ptrdiff_t>(warmup_of(run.values.size(), request.warmup));
  run.values.erase(run.values.begin(), run.values.begin() + warmup);
  return run;
}

TrialCandidate candidate_of(const Split& split) {
  TrialCandidate candidate;
  candidate.label = split.label;
  candidate.control = split.shape.control;
  for (const RankSplit& rank : split.ranks) {
    candidate.pool_threads = std::max(candidate.pool_threads, static_cast<int>(rank.pool.size()));
  }
  return candidate;
}

std::string text_of_words(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) {
    if (!text.empty()) text += ' ';
    text += shell_quoted(word);
  }
  return text;
}

/// Takes out what did not run.
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
  result.trial.command = text_of_words(request.command);
  result.trial.metric = metric.pattern();
  result.trial.higher_is_better = request.higher_is_better;

  const Folder folder;
  std::vector<std::string> plans;
  for (std::size_t i = 0; i < splits.size(); ++i) {
    result.trial.candidates.push_back(candidate_of(splits[i].split));
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
      Run run = run_once(words_of(request.command, splits[i], plans[i]), metric, request);
      if (run.stopped && round > 0) return without_missing(std::move(result));
      if (run.stopped)
        throw Error(Exit::runtime_error, "interrupted before every split had run once: no plan was written");
      const std::string& label = result.trial.candidates[i].label;
      if (!run.failure.empty() && is_unbound(splits[i]) && round == 0) {
        result.warnings.push_back(
            fmt::format("the job does not run unbound, so that this control is missing: the command {}",
                        run.failure.substr(0, run.failure.find(';'))));
        order.erase(std::find(order.begin(), order.end(), i));
        continue;
      }
      if (!run.failure.empty()) {
        throw Error(Exit::runtime_error, fmt::format("under \"{}\" the command {}", label, run.failure));
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
