#include "search/judgement.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <tuple>

#include "compare/statistics.hpp"

namespace zf {
namespace {

constexpr double kNormal95 = 1.96;
constexpr double kMedianError = 1.2533;  // standard error of a median, in units of that of a mean

/// Returns by how much two equal splits differ, at the limit of 95 %, that have `visits` visits each; 0 if
/// the noise is not known.
double noise_between_visits(const Levels& levels, int visits) {
  return kNormal95 * levels.noise() * std::sqrt(2.0 / visits);
}

/// Returns the standard error of a visit's median by the spread of its samples, over all visits; 0 if each
/// has one.
double error_within_visits(const std::vector<std::vector<double>>& visits) {
  std::vector<double> errors;
  for (const std::vector<double>& samples : visits) {
    if (samples.size() < 2) continue;
    // 1.349 standard deviations of a normal distribution lie between its quartiles.
    const double deviation = relative_spread(samples) / 1.349;
    errors.push_back(kMedianError * deviation / std::sqrt(static_cast<double>(samples.size())));
  }
  return errors.empty() ? 0 : median(errors);
}

bool can_win(const Contest& contest, std::size_t index) {
  return contest.contenders[index].eligible && contest.levels.has(index);
}

/// Returns whether another eligible contender beats `home` by more than the noise.
bool is_beaten(const Contest& contest, std::size_t home) {
  for (std::size_t i = 0; i < contest.contenders.size(); ++i) {
    if (i == home || !can_win(contest, i)) continue;
    const Difference slower = contest.levels.difference(i, home);
    if (slower.estimate > contest.noise || slower.low > 0) return true;
  }
  return false;
}

/// Returns a key by which the preferred contender of several that tie is the least.
auto preference(const Contest& contest, std::size_t index) {
  const Contender& contender = contest.contenders[index];
  const bool waits = contest.mode == Mode::wait;
  const bool other_kind = contender.shared != waits;
  if (contender.step == 0) {
    // Nothing tells whether the step hides, so a small pool is no merit of its own.
    return std::tuple(other_kind, false, 0.0, PoolSize{}, 0, contest.levels.of(index));
  }
  if (waits || contender.shared) {
    return std::tuple(other_kind, false, contender.step, contender.pool, contender.idle,
                      contest.levels.of(index));
  }
  const bool is_short = kStepHeadroom * contender.step > contender.window;
  const bool known = contender.window > 0;
  return std::tuple(other_kind, is_short, known && is_short ? contender.loss_if_wrong : 0.0, contender.pool,
                    contender.idle, contest.levels.of(index));
}

bool is_at_cliff(const Contest& contest, std::size_t index) {
  return contest.mode != Mode::wait && contest.contenders[index].loss_if_wrong > kCliff;
}

/// Returns how much slower than the fastest a contender may be that wins because another one is at a cliff.
double wider_tie(const Contest& contest) {
  return std::min(kWiderTie * tie_of(contest.accuracy, contest.noise), kLargestTie * contest.accuracy);
}

/// Returns the contender for which `is_near` holds that has the smallest loss if the job is not as told, with
/// kPrice times what it is slower than `index` added; nothing if that is `index` itself.
template <class IsNear>
std::optional<std::size_t> safest_instead_of(const Contest& contest, std::size_t index, IsNear is_near) {
  const auto cost = [&](std::size_t i) {
    const double slower = std::max(0.0, contest.levels.of(i) / contest.levels.of(index) - 1);
    return contest.contenders[i].loss_if_wrong + kPrice * slower;
  };
  std::optional<std::size_t> safest;
  for (std::size_t i = 0; i < contest.contenders.size(); ++i) {
    if (i == index || !can_win(contest, i) || cost(i) >= cost(safest.value_or(index))) continue;
    if (is_near(i)) safest = i;
  }
  return safest;
}

/// Returns the index of the preferred one among the eligible contenders that tie with the fastest, whether it
/// stands at a cliff or not (see judge()):
/// - in mode wait, shared homes first, then the shortest step;
/// - in the other modes, homes that are divided first. Among these the smallest pool whose step could take
///   kStepHeadroom times as long and still hide; if there is none, the one with the smallest loss_if_wrong,
///   or the smallest pool if no training was measured. Among shared homes the shortest step;
/// - if no step is known (trial), the lowest level of that kind of homes.
std::size_t preferred_index(const Contest& contest) {
  const std::size_t fastest = fastest_index(contest);
  std::size_t preferred = fastest;
  for (std::size_t i = 0; i < contest.contenders.size(); ++i) {
    if (i == fastest || !can_win(contest, i)) continue;
    if (!is_tie(contest.levels.difference(fastest, i), contest.accuracy, contest.noise)) continue;
    if (preference(contest, i) < preference(contest, preferred)) preferred = i;
  }
  return preferred;
}

}  // namespace

double noise_of(const Levels& levels, const std::vector<std::vector<double>>& samples, int visits) {
  const double between = noise_between_visits(levels, visits);
  if (levels.freedom() >= kFewFreedoms) return between;
  return std::max(between, kNormal95 * error_within_visits(samples) * std::sqrt(2.0 / visits));
}

double tie_of(double accuracy, double noise) {
  return std::min(std::max(accuracy, noise), kLargestTie * accuracy);
}

bool is_tie(const Difference& slower, double accuracy, double noise) {
  if (!slower.is_known() && noise > accuracy) return slower.estimate <= 0;
  return slower.estimate <= tie_of(accuracy, noise) && slower.low <= accuracy;
}

std::size_t fastest_index(const Contest& contest) {
  std::optional<std::size_t> fastest;
  for (std::size_t i = 0; i < contest.contenders.size(); ++i) {
    if (!can_win(contest, i)) continue;
    if (!fastest || contest.levels.of(i) < contest.levels.of(*fastest)) fastest = i;
  }
  assert(fastest);
  return *fastest;
}

std::optional<std::size_t> control_index(const Contest& contest, Control control) {
  for (std::size_t i = 0; i < contest.contenders.size(); ++i) {
    if (contest.contenders[i].control == control && contest.levels.has(i)) return i;
  }
  return std::nullopt;
}

std::optional<std::size_t> undecided_refuge(const Contest& contest, std::size_t winner) {
  if (!is_at_cliff(contest, winner)) return std::nullopt;
  const std::size_t fastest = fastest_index(contest);
  return safest_instead_of(contest, winner, [&](std::size_t i) {
    return contest.levels.difference(fastest, i).low <= wider_tie(contest);
  });
}

std::optional<std::size_t> runner_up_of(const Contest& contest, std::size_t index) {
  std::optional<std::size_t> second;
  for (std::size_t i = 0; i < contest.contenders.size(); ++i) {
    if (i == index || !can_win(contest, i)) continue;
    if (!second || contest.levels.of(i) < contest.levels.of(*second)) second = i;
  }
  return second;
}

Judgement judge(const Contest& contest) {
  Judgement judgement;
  judgement.fastest = fastest_index(contest);
  judgement.winner = preferred_index(contest);
  judgement.tie = tie_of(contest.accuracy, contest.noise);
  const auto refuge = safest_instead_of(contest, judgement.winner, [&](std::size_t i) {
    const Difference slower = contest.levels.difference(judgement.fastest, i);
    const bool told = slower.is_known() || contest.noise <= contest.accuracy;
    return slower.estimate <= (told ? wider_tie(contest) : 0);
  });
  if (is_at_cliff(contest, judgement.winner) && refuge) {
    judgement.cliff = judgement.winner;
    judgement.winner = *refuge;
  }
  if (contest.noise <= contest.accuracy) return judgement;
  const auto home = control_index(contest, Control::shared);
  if (!home || *home == judgement.winner || !can_win(contest, *home) || is_beaten(contest, *home))
    return judgement;
  judgement.winner = *home;
  judgement.cliff.reset();
  judgement.conservative = true;
  return judgement;
}

}  // namespace zf
