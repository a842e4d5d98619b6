// Puts the choice of a trial in words.
#include "report/reasons.hpp"

#include <algorithm>
#include <optional>

#include "base/format.hpp"
#include "base/text.hpp"
#include "report/comparisons.hpp"
#include "search/contest.hpp"

namespace zf {
namespace {

bool is_noise_known(const Contest& contest) { return contest.levels.freedom() > 0; }

/// Says why this split won.
std::string why_it_won(const Trial& trial, const Contest& contest, const Decision& decision) {
  if (decision.grounds == Grounds::not_shown) {
    return format_text(
        ". Runs under the same split {}differ by {:.1f} %, and no other split was shown to be better",
        is_noise_known(contest) ? "" : "may ", 100 * contest.noise);
  }
  const std::size_t fastest = fastest_index(contest);
  if (decision.winner != fastest) {
    const TrialCandidate& best = trial.candidates[fastest];
    return format_text(
        ". It is preferred: its median is within {:.1f} % of the best that a plan can express, "
        "{:.4g} with \"{}\"",
        100 * tie_of(contest.accuracy, contest.noise), best.median, best.label);
  }
  const auto eligible = std::count_if(contest.contenders.begin(), contest.contenders.end(),
                                      [](const Contender& one) { return one.eligible; });
  if (eligible == 1) return ". No other binding was tried";
  return format_text(". That is the best median of {} splits that a plan can express", eligible);
}

/// Returns ". 1 run is left out: other runs under the same splits contradict it"; "" if none is.
std::string runs_left_out(const Contest& contest) {
  const int count = contest.levels.left_out();
  if (count == 0) return "";
  return format_text(". {} {} left out: other runs under the same splits contradict {}",
                     print_count(count, "run"), count == 1 ? "is" : "are", count == 1 ? "it" : "them");
}

/// Returns the eligible split that is best after the winner, with that in its name; nothing if there is none.
std::optional<Comparison> best_other(const Trial& trial, const Contest& contest, const Decision& decision) {
  const auto second = runner_up_of(contest, decision.winner);
  if (!second) return std::nullopt;
  Comparison rival = compared(trial, *second, decision.winner);
  rival.name = *second == fastest_index(contest) ? format_text("{}, which had a better median,", rival.name)
                                                 : format_text("the next best, {},", rival.name);
  return rival;
}

/// Says how the next best split and unbound compare with the winner; that nothing is known, if so; and what
/// to do if unbound is faster.
std::string others_in_words(const Trial& trial, const Contest& contest, const Decision& decision) {
  const auto rival = best_other(trial, contest, decision);
  const auto index = control_index(contest, Control::unbound);
  std::string text;
  if ((rival || index) && !is_noise_known(contest)) {
    text += ". " + unknown_differences_in_words(trial) + ". More runs (--trials) would tell";
  } else {
    if (rival) text += ". " + comparison_in_words(*rival);
    if (index) text += ". " + comparison_in_words(compared(trial, *index, decision.winner));
  }
  if (!index) return text + ". Unbound was not tried";
  return is_unbound_better(trial) ? text + ". No plan can express that: run this job unbound" : text;
}

}  // namespace

std::string reason_of(const Trial& trial, Mode mode) {
  const Contest contest = contest_of(trial, mode);
  const Decision decision = decide(contest);
  const TrialCandidate& winner = trial.candidates[decision.winner];
  return format_text("The job itself was timed: {:.4g} with \"{}\"", winner.median, winner.label) +
         why_it_won(trial, contest, decision) + runs_left_out(contest) +
         others_in_words(trial, contest, decision);
}

}  // namespace zf
