// The rule by which a split is chosen. Pure.
//
// 1. The risk of a split is what its period loses to the shortest one, and half of what it would lose if
//    training were 1.5 times as fast, or the step 1.5 times as long, whichever loses more.
// 2. Of the splits that lose at most 2.5 times the accuracy, the least risk wins.
// 3. Of risks within half a tie of that, mode wait prefers a shared home and then the shortest step; the
//    other modes prefer a divided home and then the smallest pool.
// 4. If visits after the choice show that its runner-up is surely faster, by more than the accuracy and what
//    the choice is safer by, the others are judged again without it.
// 5. If the noise is above the accuracy, the shared home wins, unless the choice is surely faster than that.
//
// Why: the shortest period may be that of a step which only just hides behind training. A workload is known
// within a factor of about 1.5, and then such a split loses up to 50 %. Among
// equals, the split is taken that leaves most to the rest of the job. The luckiest of many splits looks
// better than it is: only visits after the choice tell. A machine on which nothing can be told apart gets the
// home that no side can lose by.
//
// What was seen stands beside each constant of this room. Figures are those of `regret 3 40` (2026-11-29),
// one constant changed at a time: the 95th percentile of the regret of calm machines, that of noisy ones, and
// the mean loss if the job differs. Without a change they were 1.19, 1.47 and 0.28 %.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <limits>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "compare/levels.hpp"
#include "plan/evidence.hpp"
#include "plan/period.hpp"

namespace zf {

/// The accuracy: the smallest relative difference of periods that counts, unless the user asks for another
/// one. Visits of one split differ by about 1 % on an idle machine.
inline constexpr double kDefaultTie = 0.02;
/// How much slower than the fastest a split may be that is chosen, and the largest tie, in accuracies:
/// however noisy the machine, a larger difference counts. With 1.25: 1.12, 1.53 and 0.32 %. With
/// 5: 1.27, 1.47 and 0.28 %, and 0.66 instead of 0.19 % of runs lose more than 5 %.
inline constexpr double kLargestTie = 2.5;
/// How the job may differ from its workload: training this many times as fast, or the step as long. That is
/// what is asked, so `regret` cannot tell what it earns.
inline constexpr double kDiffers = 1.5;
/// How much the loss counts if the job differs. With 0: 0.81, 1.41 and 2.23 %. With 1: 1.65, 1.97
/// and 0.25 %.
inline constexpr double kDifferWeight = 0.5;
/// Two risks are equal that differ by at most this part of a tie. No visit is made to find a lower one. With
/// 0.25: 1.28, 1.67 and 0.24 %, and 35 visits on 256 cores instead of 19. With 1: 1.27, 1.50 and 0.42 %.
inline constexpr double kSameRisk = 0.5;

/// The times of one split, in nanoseconds.
struct SplitTimes {
  double period = 0;    ///< measured, without drift; or a forecast
  double training = 0;  ///< a training step; 0 if there is no training side
  double step = 0;      ///< our optimizer step; 0 if it is not known
};

/// One split as the rule sees it. Its visits are those of its index among the contenders.
struct Contender {
  bool eligible = true;  ///< false if no plan can express it (unbound): it is compared with, but never wins
  Control control = Control::none;
  bool shared = false;   ///< both sides have the whole home
  int pool_threads = 0;  ///< of the optimizer, per rank
  int pool_cores = 0;
  int idle = 0;         ///< cores on neither side
  double training = 0;  ///< a training step, nanoseconds; 0 if there is none
  double step = 0;      ///< our optimizer step, nanoseconds; 0 if it is not known
};

/// What the rule judges: splits that were timed side by side. `levels` and `noise` are fitted elsewhere
/// (contest.hpp).
struct Contest {
  std::vector<Contender> contenders;
  Levels levels;  ///< by the visits that led to the choice, or by the runs of a trial
  Levels checks;  ///< by the visits that came after the choice, in which it has no luck
  Schedule schedule;
  double accuracy = kDefaultTie;  ///< the smallest relative difference that counts
  double noise = 0;               ///< up to which difference two splits may be equal

  /// Returns whether the contender can be chosen.
  bool can_win(std::size_t i) const { return contenders[i].eligible && levels.has(i); }
  bool is_checked() const {
    for (std::size_t i = 0; i < checks.candidates(); ++i) {
      if (checks.has(i)) return true;
    }
    return false;
  }
  /// Returns what is known of a contender with a visit.
  SplitTimes times_of(std::size_t i) const {
    return {levels.of(i), contenders[i].training, contenders[i].step};
  }
  /// Returns how much longer `b` takes than `a`: by the checks if they are enough for an interval.
  Difference difference(std::size_t a, std::size_t b) const {
    const Difference checked = checks.difference(a, b);
    return checked.is_known() ? checked : levels.difference(a, b);
  }
};

/// Returns the largest difference that may be a tie.
inline double tie_of(double accuracy, double noise) {
  return std::min(std::max(accuracy, noise), kLargestTie * accuracy);
}

/// What splits lose against the best of those that were measured. If training takes a times and the step b
/// times as long: P(a, b) = period × period_of(a × training, b × step) ÷ period_of(training, step), and
/// loss(a, b) = P(a, b) ÷ the least P(a, b) − 1. A forecast may lose less than nothing.
class Risks {
 public:
  /// Precondition: `measured` is not empty.
  Risks(const std::vector<SplitTimes>& measured, const Schedule& schedule) : schedule_(schedule) {
    assert(!measured.empty());
    for (const SplitTimes& split : measured) {
      least_ = std::min(least_, split.period);
      if (!can_differ(split)) continue;
      least_if_faster_ = std::min(least_if_faster_, period_if(split, 1 / kDiffers, 1));
      least_if_longer_ = std::min(least_if_longer_, period_if(split, 1, kDiffers));
    }
  }

  /// Returns loss(1, 1).
  double loss(const SplitTimes& split) const { return split.period / least_ - 1; }
  /// Returns the larger of loss(1 / kDiffers, 1) and loss(1, kDiffers); loss(1, 1) without a training side or
  /// a step.
  double loss_if_it_differs(const SplitTimes& split) const {
    if (!can_differ(split)) return loss(split);
    return std::max(period_if(split, 1 / kDiffers, 1) / least_if_faster_ - 1,
                    period_if(split, 1, kDiffers) / least_if_longer_ - 1);
  }
  double risk(const SplitTimes& split) const {
    return loss(split) + (can_differ(split) ? kDifferWeight * loss_if_it_differs(split) : 0);
  }

  static bool can_differ(const SplitTimes& split) { return split.training > 0 && split.step > 0; }

 private:
  double period_if(const SplitTimes& split, double training, double step) const {
    return split.period * period_of(training * split.training, step * split.step, schedule_) /
           period_of(split.training, split.step, schedule_);
  }

  const Schedule schedule_;
  double least_ = std::numeric_limits<double>::infinity();
  double least_if_faster_ = least_;
  double least_if_longer_ = least_;
};

/// Returns the index of the contender that can win and has the least `key`, the first one among equals;
/// nothing if none can win.
template <class Key>
std::optional<std::size_t> least_of(const Contest& contest, Key key) {
  std::optional<std::size_t> least;
  for (std::size_t i = 0; i < contest.contenders.size(); ++i) {
    if (contest.can_win(i) && (!least || key(i) < key(*least))) least = i;
  }
  return least;
}

/// Returns the fastest one that can win. Precondition of this and of all below: there is one.
inline std::size_t fastest_index(const Contest& contest) {
  return least_of(contest, [&](std::size_t i) { return contest.levels.of(i); }).value();
}

/// Returns the fastest one except `index`; nothing if there is no other.
inline std::optional<std::size_t> runner_up_of(const Contest& contest, std::size_t index) {
  const auto second =
      least_of(contest, [&](std::size_t i) { return std::pair(i == index, contest.levels.of(i)); });
  return second == index ? std::nullopt : second;
}

/// Returns the control; nothing if there is none with a visit.
inline std::optional<std::size_t> control_index(const Contest& contest, Control control) {
  for (std::size_t i = 0; i < contest.contenders.size(); ++i) {
    if (contest.contenders[i].control == control && contest.levels.has(i)) return i;
  }
  return std::nullopt;
}

inline Risks risks_of(const Contest& contest) {
  std::vector<SplitTimes> measured;
  for (std::size_t i = 0; i < contest.contenders.size(); ++i) {
    if (contest.can_win(i)) measured.push_back(contest.times_of(i));
  }
  return {measured, contest.schedule};
}

/// Returns a key by which the preferred one of equal contenders is the least.
inline auto preference(const Contest& contest, std::size_t i) {
  const Contender& one = contest.contenders[i];
  const bool waits = contest.schedule.mode == Mode::wait;
  const bool other_kind = one.shared != waits;
  const double level = contest.levels.of(i);
  // A trial does not know whether the step hides, so a small pool is no merit of its own: the fastest wins.
  if (one.step == 0) return std::tuple(other_kind, 0.0, 0, 0, 0, level);
  return std::tuple(other_kind, waits ? one.step : 0.0, one.pool_threads, one.pool_cores, one.idle, level);
}

/// Returns the preferred one of those that compete, and have a `risk` at most `same` above the least.
template <class Risk>
std::size_t preferred_index(const Contest& contest, const Risks& risks, Risk risk, double same) {
  constexpr double kOut = std::numeric_limits<double>::infinity();
  const auto risk_if_it_competes = [&](std::size_t i) {
    const SplitTimes times = contest.times_of(i);
    return risks.loss(times) <= kLargestTie * contest.accuracy ? risk(times) : kOut;
  };
  const double most = risk_if_it_competes(least_of(contest, risk_if_it_competes).value()) + same;
  return least_of(
             contest,
             [&](std::size_t i) { return std::pair(risk_if_it_competes(i) > most, preference(contest, i)); })
      .value();
}

/// What the levels say, before any check.
struct Judgement {
  std::size_t fastest = 0;
  std::size_t winner = 0;
  double same_risk = 0;  ///< up to this difference two risks are equal
  bool is_safer =
      false;  ///< the winner loses less than the fastest if the job differs, and would not win otherwise
};

/// Applies the first three sentences. Without a training side or a step, the risk is loss(1, 1), and what
/// ties is equal.
inline Judgement judge(const Contest& contest) {
  const Risks risks = risks_of(contest);
  const auto loss = [&](const SplitTimes& times) { return risks.loss(times); };
  const auto risk = [&](const SplitTimes& times) { return risks.risk(times); };
  const double tie = tie_of(contest.accuracy, contest.noise);
  const std::size_t fastest = fastest_index(contest);
  const std::size_t if_it_does_not_differ = preferred_index(contest, risks, loss, tie);
  if (!Risks::can_differ(contest.times_of(fastest))) return {fastest, if_it_does_not_differ, tie};
  const double same_risk = kSameRisk * tie;
  const std::size_t winner = preferred_index(contest, risks, risk, same_risk);
  const bool is_safer = winner != fastest && winner != if_it_does_not_differ &&
                        risks.loss_if_it_differs(contest.times_of(winner)) <
                            risks.loss_if_it_differs(contest.times_of(fastest));
  return {fastest, winner, same_risk, is_safer};
}

/// Returns whether the checks show that the winner is surely slower than the runner-up: by more than the
/// accuracy and what it is safer by, or so much that it would not compete.
inline bool is_refuted(const Contest& contest, std::size_t winner, std::size_t second) {
  const Risks risks = risks_of(contest);
  const auto if_it_differs = [&](std::size_t i) {
    const SplitTimes times = contest.times_of(i);
    return risks.risk(times) - risks.loss(times);
  };
  const double safer_by = std::max(0.0, if_it_differs(second) - if_it_differs(winner));
  return contest.difference(second, winner).low >
         std::min(contest.accuracy + safer_by, kLargestTie * contest.accuracy);
}

/// Returns whether the noise hides that the winner is faster than the shared home, or that it is not.
inline bool is_lost_in_noise(const Contest& contest, std::size_t home, std::size_t winner) {
  const Difference slower = contest.difference(home, winner);
  return contest.noise > contest.accuracy && !(slower.is_known() && slower.high < 0);
}

/// Why a contender won.
enum class Grounds {
  fastest,    ///< is the fastest, or is preferred among those that tie with it
  safer,      ///< loses less than `instead_of` if the job differs from its workload
  not_shown,  ///< is the shared home, and `instead_of` was not shown to be faster
  corrected,  ///< the visits after the choice showed `instead_of` to be worse than `beaten_by`
};

/// A contender that won. Contenders are indexes.
struct Decision {
  std::size_t winner = 0;
  Grounds grounds = Grounds::fastest;
  std::size_t instead_of = 0;      ///< see Grounds
  std::size_t beaten_by = 0;       ///< may be the winner, or not
  bool unbound_is_better = false;  ///< running unbound is surely faster than the winner and every split
};

/// Returns which contender wins. Unbound never does, since no plan can express it.
inline Decision decide(const Contest& contest) {
  const Judgement judgement = judge(contest);
  Decision decision{judgement.winner, judgement.is_safer ? Grounds::safer : Grounds::fastest,
                    judgement.fastest};

  const auto second = runner_up_of(contest, judgement.winner);
  if (contest.is_checked() && second && is_refuted(contest, judgement.winner, *second)) {
    Contest others = contest;
    others.contenders[judgement.winner].eligible = false;
    decision = {judge(others).winner, Grounds::corrected, judgement.winner, *second};
  }

  const auto home = control_index(contest, Control::shared);
  if (home && *home != decision.winner && is_lost_in_noise(contest, *home, decision.winner))
    decision = {*home, Grounds::not_shown, decision.winner};

  const auto loses_to_unbound = [&, unbound = control_index(contest, Control::unbound)](std::size_t i) {
    return unbound && contest.difference(*unbound, i).low > contest.accuracy;
  };
  decision.unbound_is_better = loses_to_unbound(decision.winner) && loses_to_unbound(judgement.fastest);
  return decision;
}

}  // namespace zf
