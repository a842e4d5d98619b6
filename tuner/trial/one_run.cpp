#include "trial/one_run.hpp"

#include <algorithm>
#include <deque>

#include "base/format.hpp"
#include "base/text.hpp"
#include "children/run_command.hpp"
#include "text/command_line.hpp"
#include "text/units.hpp"
#include "trial/metric_matches.hpp"

namespace zf {
namespace {

constexpr std::size_t kLastLines = 10;
constexpr std::size_t kShownOfLine = 300;

/// Says why the matches cannot be used. Empty if they can.
std::string why_unusable(const MetricMatches& matches, const Metric& metric, const TrialRequest& request) {
  const std::string pattern = shell_quoted(metric.pattern());
  const std::size_t values = matches.values().size();
  if (values == 0 && matches.odd()) {
    return format_text("printed {} where --metric {} matches, which is not a positive number",
                       shell_quoted(one_line(matches.odd()->substr(0, kShownOfLine))), pattern);
  }
  if (values == 0) return format_text("printed nothing that --metric {} matches", pattern);
  if (request.warmup && static_cast<std::size_t>(*request.warmup) >= values) {
    return format_text("printed {}, and --warmup {} discards all", print_count(values, "value"),
                       *request.warmup);
  }
  return "";
}

/// Returns how many of `count` values may be used.
std::size_t counted(std::size_t count, const TrialRequest& request) {
  return request.values ? std::min(count, static_cast<std::size_t>(*request.values)) : count;
}

/// Returns the values that count, without the warm-up.
std::vector<double> steady_values(const MetricMatches& matches, const TrialRequest& request) {
  const std::size_t count = counted(matches.values().size(), request);
  const auto begin = matches.values().begin();
  return {begin + static_cast<std::ptrdiff_t>(warmup_of(count, request.warmup)),
          begin + static_cast<std::ptrdiff_t>(count)};
}

/// Looks at the output of a run that goes on.
class Onlooker {
 public:
  enum class Answer { go_on, hopeless, enough };

  Onlooker(MetricMatches& matches, const TrialRequest& request, const RunWatch& watch)
      : matches_(matches), request_(request), watch_(watch), said_value_(watch.metric_has_matched) {}

  /// Looks if it is time to, and returns whether the run should go on.
  Answer look() {
    const Nanoseconds passed = now_ns() - started_;
    if (passed < next_look_) return Answer::go_on;
    matches_.find(request_.interrupt);
    say_first_value();
    say_that_nothing_matched(passed);
    next_look_ = look_after(passed);
    if (request_.values && matches_.values().size() >= static_cast<std::size_t>(*request_.values))
      return Answer::enough;
    // Without a value of its own, a run would be judged by the earlier ones alone, and leave nothing behind.
    if (matches_.values().size() <= static_cast<std::size_t>(request_.warmup.value_or(0)))
      return Answer::go_on;
    return watch_.cannot_win(steady_values(matches_, request_)) ? Answer::hopeless : Answer::go_on;
  }

  /// Says once in a trial that the metric matches.
  void say_first_value() {
    if (said_value_ || matches_.values().empty()) return;
    said_value_ = true;
    say(request_, format_text("--metric matches: the first value is {:.6g}", matches_.values().front()));
  }

 private:
  /// Says once, when the user's patience ends, that the metric has matched nothing.
  void say_that_nothing_matched(Nanoseconds passed) {
    if (said_value_ || said_nothing_ || passed < request_.patience_ns) return;
    said_nothing_ = true;
    say(request_,
        format_text("--metric has matched none of the {} of the first {}. --show-output prints them.",
                    print_count(matches_.line_count(), "line"), print_duration(request_.patience_ns)));
  }

  /// Returns when to look next: after twice the time, when the user's patience ends, or when the values so
  /// far promise that there are enough.
  Nanoseconds look_after(Nanoseconds passed) const {
    Nanoseconds next = 2 * next_look_;
    if (next_look_ < request_.patience_ns) next = std::min(next, request_.patience_ns);
    if (!request_.values || matches_.values().empty()) return next;
    const double expected = static_cast<double>(passed) * static_cast<double>(*request_.values) /
                            static_cast<double>(matches_.values().size());
    if (expected >= static_cast<double>(next)) return next;
    return std::min(next, std::max(static_cast<Nanoseconds>(expected), passed + request_.first_look_ns));
  }

  MetricMatches& matches_;
  const TrialRequest& request_;
  const RunWatch& watch_;
  Nanoseconds started_ = now_ns();
  Nanoseconds next_look_ = request_.first_look_ns;  ///< since started_
  bool said_value_;                                 ///< in this run or an earlier one
  bool said_nothing_ = false;
};

}  // namespace

void say(const TrialRequest& request, const std::string& line) {
  if (request.say) request.say(line);
}

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
  Onlooker onlooker(matches, request, watch);
  auto answer = Onlooker::Answer::go_on;
  const auto stop = [&] {
    if (request.interrupt() == 0 && answer == Onlooker::Answer::go_on) answer = onlooker.look();
    return answer != Onlooker::Answer::go_on || request.interrupt() != 0;
  };
  const Nanoseconds started = now_ns();
  const CommandEnd end = run_command(words, started + request.timeout_ns, stop, listen);
  Run run;
  run.duration_ns = now_ns() - started;
  run.last_lines.assign(last.begin(), last.end());
  run.hopeless = answer == Onlooker::Answer::hopeless;
  run.late = end.why == CommandEnd::Why::late;
  if (end.why == CommandEnd::Why::ended && end.status.code != 0) {
    run.failure = describe(end.status);
  } else if (end.why != CommandEnd::Why::stopped) {
    matches.find(request.interrupt);
    run.failure = why_unusable(matches, metric, request);
    onlooker.say_first_value();
  }
  if (run.late && !run.failure.empty()) {
    run.failure = format_text("was stopped after {} (--timeout) and {}", print_duration(request.timeout_ns),
                              run.failure);
  }
  // A signal that stops us may have ended the command too, or kept us from reading all of its output.
  run.stopped = request.interrupt() != 0;
  run.values = steady_values(matches, request);
  return run;
}

}  // namespace zf
