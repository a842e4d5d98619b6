#include "search/sweep.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <random>

#include "base/error.hpp"
#include "base/format.hpp"
#include "compare/statistics.hpp"
#include "engine/working_set.hpp"
#include "search/candidates.hpp"
#include "search/contest.hpp"
#include "search/period_levels.hpp"
#include "text/units.hpp"

namespace zf {
namespace {

// decision.hpp says what the figures are.

/// How often a visit is repeated that is not believable. With 0: 1.19, 1.60 and 0.28 %.
constexpr int kMaxRepeats = 2;
/// The most rounds of confirm. With 3: 1.19, 1.62 and 0.31 %. With 12: 1.18, 1.41 and 0.28 %.
constexpr int kConfirmRounds = 6;
/// The most periods of a visit: on a noisy machine, confirm takes twice as many. Without that: 1.18, 1.50 and
/// 0.28 %.
constexpr int kMaxSamplesPerVisit = 16;
/// The most visits of a round. Visits of a round should be neighbours in time, so that drift hits them alike.
/// With 3: 1.25, 2.18 and 0.28 %. With 8: 1.17, 1.68 and 0.27 %.
constexpr std::size_t kBlock = 4;
/// A visit is cut short if its first periods are this many times as long as the shortest period so far.
/// Without that: 1.24, 1.47 and 0.28 %, in more time.
constexpr double kHopeless = 1.5;
/// The fewest rounds of estimates. With 1 the figures are the same, but no interval is known.
constexpr double kFewestEstimates = 3;
/// The most rounds of estimates. With 8 and 32 the figures are the same. Without it a noisy machine takes all
/// of a budget of an hour.
constexpr double kMostEstimates = 16;
/// Student's t, for the degrees of freedom that some rounds leave. With half of it: 1.19, 1.53 and 0.28 %.
/// With twice the figures are the same.
constexpr double kStudent = 2.1;
/// The share of the budget after which each phase must end, so that time is left for the next one. It acts on
/// short budgets: with one of 20 visits, the second figure was 8.6 %, and without shares 12.2 % (2026-11-28).
constexpr std::array<double, 4> kPhaseEnds = {0.3, 0.55, 0.75, 1};
/// The default budget, in visits like the first one. With 30: 1.20, 2.05 and 0.30 %. With 120: 1.19, 1.55 and
/// 0.28 %.
constexpr int kVisitsOfBudget = 60;
/// The user's patience. Half of either changes no figure.
constexpr Nanoseconds kSmallestBudget = 20 * kSecondNs;
constexpr Nanoseconds kLargestBudget = 600 * kSecondNs;

std::vector<std::string> labels_of(const std::vector<Split>& splits) {
  std::vector<std::string> labels;
  for (const Split& split : splits) labels.push_back(split.label);
  return labels;
}

/// The state of one search.
class Sweep {
 public:
  Sweep(const std::vector<Home>& homes, const Workload& workload, Meter& meter, const SweepLimits& limits,
        const std::function<void(const SweepProgress&)>& progress)
      : homes_(homes),
        workload_(workload),
        meter_(meter),
        schedule_(schedule_of(workload, meter.scale())),
        limits_(limits),
        progress_(progress),
        samples_(limits.samples_per_visit),
        random_(limits.seed),
        start_ns_(meter.now()) {
    Evidence& evidence = result_.evidence;
    evidence.elements_per_rank = meter.elements_per_rank();
    evidence.working_set_bytes_per_rank =
        meter.elements_per_rank() * WorkingSet::bytes_per_element(meter.state_format());
    evidence.scale = meter.scale();
    evidence.isa = meter.isa();
    evidence.accuracy_wanted = limits.accuracy;
  }

  SweepResult run() {
    explore();
    while (has_candidate() && meter_.now() < end_of(SweepPhase::refine) && refine()) {
    }
    confirm();
    estimate();
    result_.budget_ns = limits_.budget_ns;
    if (short_of_time_ && whole_budget_ns_ > limits_.budget_ns) result_.telling_budget_ns = whole_budget_ns_;
    return std::move(result_);
  }

 private:
  Evidence& evidence() { return result_.evidence; }

  /// Returns whether the sweep goes on and has something to choose from.
  bool has_candidate() const { return !ended_ && has_eligible(); }

  bool has_eligible() const {
    const auto& candidates = result_.evidence.candidates;
    return std::any_of(candidates.begin(), candidates.end(), is_eligible);
  }

  std::vector<Split> splits_of(const std::vector<int>& ids) const {
    std::vector<Split> splits;
    for (const int id : ids) splits.push_back(result_.splits[static_cast<std::size_t>(id)]);
    return splits;
  }

  /// Visits the controls. Those that a plan can express come first, so that there is a plan however short the
  /// budget is.
  void explore() { visit_all(control_splits(homes_, limits_.shared_pools)); }

  /// Returns what forecasts begin with. The row's sides are not used: they are scaled to the period, and what
  /// noise adds to that would hide which side is the longer one.
  TriedSplit tried_split(const CandidateEvidence& candidate) const {
    const SplitTimes times = undisturbed_times(result_.evidence, candidate.id, schedule_);
    return {result_.splits[static_cast<std::size_t>(candidate.id)], times.step,
            times.step * std::min(1.0, candidate.roofline_ratio), times.training, times.period};
  }

  /// Visits promising splits beside the incumbent, within a round. Returns false if there are none.
  bool refine() {
    phase_ = SweepPhase::refine;
    std::vector<TriedSplit> tried;
    for (const CandidateEvidence& candidate : evidence().candidates) tried.push_back(tried_split(candidate));
    const auto room = static_cast<std::size_t>(limits_.splits) - result_.splits.size();
    std::vector<Split> splits = promising_splits(homes_, tried, schedule_, limits_.accuracy,
                                                 std::min(kBlock - 1, room), limits_.shared_pools);
    if (splits.empty()) return false;
    splits.push_back(splits_of({fastest_of(evidence()).id}).front());
    visit_round(std::move(splits));
    return true;
  }

  /// Visits the undecided splits until all is decided. On a noisy machine visits get twice as long, once.
  void confirm() {
    phase_ = SweepPhase::confirm;
    for (int i = 0; i < kConfirmRounds && has_candidate() && meter_.now() < end_of(phase_); ++i) {
      const std::vector<int> ids = candidates_to_revisit(evidence(), workload_, kBlock);
      if (ids.empty()) break;
      visit_round(splits_of(ids));
      if (samples_ < kMaxSamplesPerVisit && evidence().noise_floor > limits_.accuracy) samples_ *= 2;
    }
  }

  /// Returns how many rounds make the interval of a difference as narrow as the accuracy wanted, by the noise
  /// between the visits of the search. (By that of the estimates themselves, intervals that happen to be
  /// narrow would end it.)
  std::size_t estimate_rounds(double noise) const {
    const double ratio = kStudent * noise / limits_.accuracy;
    return static_cast<std::size_t>(
        std::clamp(std::ceil(2 * ratio * ratio), kFewestEstimates, kMostEstimates));
  }

  /// Visits the choice, its runner-up, unbound and the shared home, to know their differences without the
  /// luck of having been chosen.
  void estimate() {
    if (!has_candidate()) return;
    phase_ = SweepPhase::estimate;
    samples_ = limits_.samples_per_visit;
    longest_visit_ns_ = first_visit_ns_;  // those of confirm may have been longer
    const Contest contest = contest_of(evidence(), workload_);
    const std::size_t winner = judge(contest).winner;
    std::vector<int> ids;
    for (const auto index :
         {std::optional(winner), runner_up_of(contest, winner), control_index(contest, Control::unbound),
          control_index(contest, Control::shared)}) {
      if (!index) continue;
      const int id = evidence().candidates[*index].id;
      if (std::find(ids.begin(), ids.end(), id) == ids.end()) ids.push_back(id);
    }
    if (ids.size() < 2) return;
    evidence().estimate_round = round_;
    for (std::size_t after = estimate_rounds(contest.levels.noise()); after-- > 0 && !ended_;) {
      visits_after_round_ = after * ids.size();
      visit_round(splits_of(ids));
    }
    const bool none =
        std::none_of(evidence().samples.begin(), evidence().samples.end(),
                     [&](const Sample& sample) { return sample.round >= evidence().estimate_round; });
    if (none) evidence().estimate_round = -1;
  }

  void visit_round(std::vector<Split> splits) {
    std::shuffle(splits.begin(), splits.end(), random_);
    visit_all(splits);
  }

  void visit_all(const std::vector<Split>& splits) {
    round_size_ = static_cast<int>(splits.size());
    visit_in_round_ = 0;
    for (std::size_t i = 0; i < splits.size(); ++i) {
      if (!has_time()) break;
      if (i == 0) meter_.begin_round(labels_of(splits));
      visit(splits[i], deadline_of_visit(splits.size() - i));
    }
    ++round_;
  }

  Nanoseconds end_of(SweepPhase phase) const {
    const double share = kPhaseEnds.at(static_cast<std::size_t>(phase));
    return start_ns_ + std::llround(share * static_cast<double>(limits_.budget_ns));
  }

  /// Returns when the next visit should end, so that all visits left in this round get the same time.
  Nanoseconds deadline_of_visit(std::size_t visits_left) {
    if (limits_.budget_ns == 0) return meter_.now() + kLargestBudget;
    const Nanoseconds left = std::max<Nanoseconds>(0, end_of(phase_) - meter_.now());
    return meter_.now() + left / static_cast<Nanoseconds>(visits_left + visits_after_round_);
  }

  /// Returns the period after which a visit is not worth going on with.
  Nanoseconds hopeless_ns() {
    if (phase_ == SweepPhase::confirm || phase_ == SweepPhase::estimate || !has_eligible())
      return std::numeric_limits<Nanoseconds>::max();
    return std::llround(kHopeless * static_cast<double>(fastest_of(evidence()).period_ns_median));
  }

  /// Returns the believable samples of a visit. If there are none after all repeats, returns all and warns.
  std::vector<SplitSample> measured(const Split& split, Nanoseconds deadline_ns) {
    std::vector<SplitSample> kept;
    std::vector<SplitSample> all;
    for (int attempt = 0; attempt <= kMaxRepeats; ++attempt) {
      const auto wanted = samples_ - static_cast<int>(kept.size());
      if (wanted == 0 || (attempt > 0 && !has_time())) break;
      const auto samples = meter_.measure(split, {wanted, deadline_ns, hopeless_ns(), limits_.stop});
      ++result_.visits;
      for (const SplitSample& sample : samples) {
        all.push_back(sample);
        if (is_possible(sample, evidence().noise_floor)) kept.push_back(sample);
      }
      if (static_cast<int>(samples.size()) < wanted) break;  // the deadline
    }
    if (!kept.empty() || all.empty()) return kept;
    const std::string warning = format_text(
        "{}: every optimizer step was faster than its roofline by more than 15 % and three times the noise, "
        "or took more than ten times as long as it; do not trust its times",
        split.label);
    auto& warnings = result_.warnings;
    if (std::find(warnings.begin(), warnings.end(), warning) == warnings.end()) warnings.push_back(warning);
    return all;
  }

  /// Returns the samples of a visit. Ends the sweep if there are none because it was stopped, or if the visit
  /// fails: a CPU may have left, and what was measured before counts. Throws if nothing was measured before.
  std::vector<SplitSample> measured_or_ended(const Split& split, Nanoseconds deadline_ns) {
    std::vector<SplitSample> samples;
    try {
      samples = measured(split, deadline_ns);
    } catch (const Error& error) {
      if (!has_eligible()) throw;
      result_.warnings.push_back(format_text("the sweep was cut short: {}", error.what()));
      result_.cut_short = true;
    }
    if (samples.empty()) ended_ = true;
    return samples;
  }

  /// Returns how long these periods took. A visit that is answered from a sample file takes no time itself.
  Nanoseconds time_of(const std::vector<SplitSample>& samples) const {
    double time = 0;
    for (const SplitSample& sample : samples) time += period_ns(sample, schedule_);
    return std::llround(time);
  }

  Nanoseconds default_budget() const {
    const Nanoseconds most = std::llround(limits_.budget_share * static_cast<double>(kLargestBudget));
    return std::min(whole_budget_ns_, most);
  }

  void visit(const Split& split, Nanoseconds deadline_ns) {
    const Nanoseconds begin = meter_.now();
    const auto samples = measured_or_ended(split, deadline_ns);
    if (samples.empty()) return;
    const Nanoseconds took = meter_.now() - begin;
    if (limits_.budget_ns != 0 && first_visit_ns_ == 0 && took > limits_.budget_ns) {
      result_.warnings.push_back(
          format_text("one visit took {}, longer than the whole budget of {}: "
                      "nothing else was measured",
                      print_duration(took), print_duration(limits_.budget_ns)));
    }
    if (first_visit_ns_ == 0) first_visit_ns_ = took;
    longest_visit_ns_ = std::max(longest_visit_ns_, took);
    if (whole_budget_ns_ == 0) {
      const Nanoseconds whole = std::max(kVisitsOfBudget * std::max(took, time_of(samples)), kSmallestBudget);
      whole_budget_ns_ = std::llround(limits_.budget_share * static_cast<double>(whole));
    }
    if (limits_.budget_ns == 0) limits_.budget_ns = default_budget();
    const int id = id_of(split);
    for (const SplitSample& sample : samples) evidence().samples.push_back({id, round_, sample});
    ++visit_in_round_;
    if (!has_eligible()) return;
    summarize(evidence(), workload_, meter_.state_format());
    if (progress_) {
      progress_({phase_, round_, visit_in_round_, round_size_, meter_.now() - start_ns_, limits_.budget_ns,
                 &evidence(), &evidence().candidates[static_cast<std::size_t>(id)],
                 &evidence().candidates[decide(contest_of(evidence(), workload_)).winner]});
    }
  }

  /// Returns the id of the split's candidate, and makes that with the first visit. Labels are unique
  /// (split.hpp).
  int id_of(const Split& split) {
    const auto known = std::find_if(result_.splits.begin(), result_.splits.end(),
                                    [&](const Split& other) { return other.label == split.label; });
    if (known != result_.splits.end()) return static_cast<int>(known - result_.splits.begin());
    const auto id = static_cast<int>(result_.splits.size());
    result_.splits.push_back(split);
    evidence().candidates.push_back(new_candidate(id, split));
    return id;
  }

  bool has_time() {
    if (limits_.stop && limits_.stop()) ended_ = true;
    const bool first = result_.visits == 0;
    if (!first && limits_.budget_ns != 0 &&
        meter_.now() - start_ns_ + longest_visit_ns_ > limits_.budget_ns) {
      short_of_time_ = short_of_time_ || !ended_;
      ended_ = true;
    }
    return !ended_;
  }

  const std::vector<Home>& homes_;
  const Workload& workload_;
  Meter& meter_;
  Schedule schedule_;
  SweepLimits limits_;
  const std::function<void(const SweepProgress&)>& progress_;
  int samples_;  ///< wanted of a visit
  std::mt19937 random_;
  SweepResult result_;
  SweepPhase phase_ = SweepPhase::explore;
  int round_ = 0;
  int visit_in_round_ = 0;
  int round_size_ = 0;
  std::size_t visits_after_round_ = 0;  ///< that the phase still wants
  Nanoseconds start_ns_;
  Nanoseconds first_visit_ns_ = 0;
  Nanoseconds longest_visit_ns_ = 0;
  Nanoseconds whole_budget_ns_ = 0;  ///< with which a sweep would know differences, by its first visit
  bool ended_ = false;
  bool short_of_time_ = false;  ///< that ended it
};

}  // namespace

SweepResult sweep(const std::vector<Home>& homes, const Workload& workload, Meter& meter,
                  const SweepLimits& limits, const std::function<void(const SweepProgress&)>& progress) {
  return Sweep(homes, workload, meter, limits, progress).run();
}

}  // namespace zf
