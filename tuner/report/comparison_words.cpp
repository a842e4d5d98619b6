// Says how other splits compare with the one that was chosen.
#include "report/reasons.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "base/format.hpp"
#include "report/comparisons.hpp"
#include "text/units.hpp"

namespace zf {
namespace {

/// Returns the split that is next after the winner, with what it is in its name; nothing if there is none, or
/// if the grounds of the decision compare it already.
std::optional<Comparison> rival_of(const Evidence& evidence, const Workload& workload,
                                   const Decision& decision) {
  const auto second = runner_up_of(contest_of(evidence, workload), decision.winner);
  if (!second) return std::nullopt;
  const bool is_refuted = *second == decision.instead_of;
  const bool by_winner = decision.grounds == Grounds::corrected && decision.beaten_by == decision.winner;
  if (is_refuted && (by_winner || decision.grounds == Grounds::not_shown)) return std::nullopt;
  const CandidateEvidence& other = evidence.candidates[*second];
  Comparison rival = compared(evidence, workload, other.id, evidence.candidates[decision.winner].id);
  rival.name = other.period_ns_median < evidence.candidates[decision.winner].period_ns_median
                   ? format_text("{}, which had a shorter period in the search,", rival.name)
                   : format_text("the next best, {},", rival.name);
  return rival;
}

/// Says why a rival that may be faster did not win. Empty if its interval does not raise the question, or if
/// the grounds answer it.
std::string why_it_stays(const Comparison& rival, const Decision& decision) {
  const auto verdict = verdict_of(rival);
  if (!verdict || rival.longer.estimate >= 0) return "";
  if (decision.grounds == Grounds::corrected || decision.grounds == Grounds::not_shown) return "";
  if (*verdict == Verdict::unclear) return ". That it is faster is not certain, so the choice stays";
  if (*verdict != Verdict::faster || decision.grounds == Grounds::safer) return "";
  if (inverse(rival.longer).low > rival.accuracy) return "";
  return format_text(". That is not surely more than {:.1f} %, so the choice stays", 100 * rival.accuracy);
}

bool is_known(const std::optional<Comparison>& comparison) {
  return comparison && comparison->longer.is_known();
}

/// Returns whether every split was visited once, before or after the choice.
bool each_once(const Evidence& evidence) {
  std::map<int, std::set<int>> rounds;  // by candidate
  for (const Sample& sample : evidence.samples) rounds[sample.candidate].insert(sample.round);
  return std::ranges::all_of(rounds, [](const auto& one) { return one.second.size() == 1; });
}

std::string unknown_differences(bool once, bool with_unbound, const char* once_each, const char* too_few) {
  if (once)
    return format_text("Each split{} {}; differences are not known", with_unbound ? ", unbound too," : "",
                       once_each);
  return format_text("Too few {}; differences{} are not known", too_few,
                     with_unbound ? ", also to unbound," : "");
}

}  // namespace

std::string unknown_differences_in_words(const Evidence& evidence) {
  return unknown_differences(each_once(evidence), control_of(evidence, Control::unbound) != nullptr,
                             "was measured once", "visits were made");
}

std::string unknown_differences_in_words(const Trial& trial) {
  const auto& tried = trial.candidates;
  const bool once = std::ranges::all_of(tried, [](const auto& one) { return one.runs.size() < 2; });
  const auto unbound = std::ranges::find(tried, Control::unbound, &TrialCandidate::control);
  return unknown_differences(once, unbound != tried.end(), "ran once", "splits ran twice");
}

std::string comparisons_in_words(const Evidence& evidence, const Workload& workload, const Decision& decision,
                                 Nanoseconds telling_budget_ns) {
  const auto rival = rival_of(evidence, workload, decision);
  std::optional<Comparison> unbound;
  if (const CandidateEvidence* const control = control_of(evidence, Control::unbound))
    unbound = compared(evidence, workload, control->id, evidence.candidates[decision.winner].id);
  const bool known = is_known(rival) || is_known(unbound);
  std::string text;
  if (!known && (rival || unbound)) text += ". " + unknown_differences_in_words(evidence);
  if (known && rival) text += ". " + comparison_in_words(*rival) + why_it_stays(*rival, decision);
  if (known && unbound) text += ". " + comparison_in_words(*unbound);
  if (!unbound) text += ". Unbound was not measured";
  if (!known && telling_budget_ns != 0)
    text += format_text(". --budget of about {} would tell", print_budget(telling_budget_ns));
  return text;
}

}  // namespace zf
