#include "search/judgement.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <tuple>

#include "compare/statistics.hpp"

namespace zf {
namespace {

constexpr double kNormal95 = 1.96;

/// Returns the index of the contender that can win for which `key` is least.
template <class Key>
std::optional<std::size_t> least_of(const Contest& contest, Key key) {
  std::optional<std::size_t> least;
  for (std::size_t i = 0; i < contest.contenders.size(); ++i) {
    if (contest.can_win(i) && (!least || key(i) < key(*least))) least = i;
  }
  return least;
}

/// Returns a key by which the preferred contender of several that tie is the least.
auto preference(const Contest& contest, std::size_t index) {
  const Contender& contender = contest.contenders[index];
  const bool waits = contest.schedule.mode == Mode::wait;
  const bool other_kind = contender.shared != waits;
  const double level = contest.levels.of(index);
  // Nothing tells whether the step hides, so a small pool is no merit of its own.
  if (contender.step == 0) return std::tuple(other_kind, 0.0, PoolSize{}, 0, level);
  return std::tuple(other_kind, waits ? contender.step : 0.0, contender.pool, contender.idle, level);
}

/// Returns the preferred one of those contenders with a `risk` at most `same` above the least. Only those
/// compete that lose at most kLargestTie times the accuracy as the workload says.
template <class Risk>
std::size_t preferred_index(const Contest& contest, const Risks& risks, Risk risk, double same) {
  constexpr double kOut = std::numeric_limits<double>::infinity();
  std::vector<double> all;
  for (std::size_t i = 0; i < contest.contenders.size(); ++i) {
    const bool competes =
        contest.can_win(i) && risks.loss(contest.times_of(i)) <= kLargestTie * contest.accuracy;
    all.push_back(competes ? risk(i) : kOut);
  }
  const double most = *std::min_element(all.begin(), all.end()) + same;
  const auto key = [&](std::size_t i) { return std::pair(all[i] > most, preference(contest, i)); };
  return *least_of(contest, key);
}

}  // namespace

SplitTimes Contest::times_of(std::size_t index) const {
  return {levels.of(index), contenders[index].training, contenders[index].step};
}

double noise_of(const Levels& levels, const std::vector<double>& errors, int visits) {
  const bool few = levels.freedom() < kFewFreedoms && !errors.empty();
  const double error = few ? std::max(levels.noise(), median(errors)) : levels.noise();
  return kNormal95 * error * std::sqrt(2.0 / visits);
}

double tie_of(double accuracy, double noise) {
  return std::min(std::max(accuracy, noise), kLargestTie * accuracy);
}

std::size_t fastest_index(const Contest& contest) {
  const auto fastest = least_of(contest, [&](std::size_t i) { return contest.levels.of(i); });
  assert(fastest);
  return *fastest;
}

std::optional<std::size_t> control_index(const Contest& contest, Control control) {
  for (std::size_t i = 0; i < contest.contenders.size(); ++i) {
    if (contest.contenders[i].control == control && contest.levels.has(i)) return i;
  }
  return std::nullopt;
}

std::optional<std::size_t> runner_up_of(const Contest& contest, std::size_t index) {
  const auto second =
      least_of(contest, [&](std::size_t i) { return std::pair(i == index, contest.levels.of(i)); });
  return second == index ? std::nullopt : second;
}

Risks risks_of(const Contest& contest) {
  std::vector<SplitTimes> measured;
  for (std::size_t i = 0; i < contest.contenders.size(); ++i) {
    if (contest.can_win(i)) measured.push_back(contest.times_of(i));
  }
  return {measured, contest.schedule};
}

Judgement judge(const Contest& contest) {
  const Risks risks = risks_of(contest);
  const auto loss = [&](std::size_t i) { return risks.loss(contest.times_of(i)); };
  const auto risk = [&](std::size_t i) { return risks.risk(contest.times_of(i)); };
  const auto if_it_differs = [&](std::size_t i) { return risks.loss_if_it_differs(contest.times_of(i)); };
  Judgement judgement;
  judgement.fastest = fastest_index(contest);
  judgement.tie = tie_of(contest.accuracy, contest.noise);
  const std::size_t of_fastest = preferred_index(contest, risks, loss, judgement.tie);
  judgement.winner = of_fastest;
  judgement.same_risk = judgement.tie;
  if (!can_differ(contest.times_of(judgement.fastest))) return judgement;
  judgement.same_risk = kSameRisk * judgement.tie;
  judgement.winner = preferred_index(contest, risks, risk, judgement.same_risk);
  judgement.is_safer = judgement.winner != judgement.fastest && judgement.winner != of_fastest &&
                       if_it_differs(judgement.winner) < if_it_differs(judgement.fastest);
  return judgement;
}

bool is_lost_in_noise(const Contest& contest, const Difference& slower) {
  return contest.noise > contest.accuracy && !(slower.is_known() && slower.high < 0);
}

}  // namespace zf
