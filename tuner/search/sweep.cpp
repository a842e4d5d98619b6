#include "search/sweep.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <set>

#include "engine/working_set.hpp"
#include "search/candidates.hpp"
#include "search/decision.hpp"

namespace zf {
namespace {

constexpr int kMaxRepeats = 2;
constexpr int kMaxSamplesPerVisit = 64;  // samples; longer visits would hardly interleave
/// The share of the budget after which each phase must end. So all splits are explored however slow the steps
/// are, and time is left to confirm the choice.
constexpr std::array<double, 3> kPhaseEnds = {0.5, 0.75, 1};

/// The state of one search.
class Sweep {
 public:
  Sweep(const std::vector<Home>& homes, const Workload& workload, Meter& meter, const SweepLimits& limits,
        const std::function<void(const SweepProgress&)>& progress)
      : homes_(homes),
        workload_(workload),
        meter_(meter),
        limits_(limits),
        progress_(progress),
        samples_(limits.samples_per_visit),
        random_(limits.seed),
        start_ns_(meter.now()) {
    Evidence& evidence = result_.evidence;
    evidence.elements_per_rank = meter.elements_per_rank();
    evidence.working_set_bytes_per_rank = meter.elements_per_rank() * WorkingSet::kBytesPerElement;
    evidence.scale = meter.scale();
    evidence.isa = meter.isa();
    evidence.accuracy_wanted = limits.accuracy;
  }

  SweepResult run() {
    explore();
    while (!ended_ && !result_.splits.empty() && meter_.now() < end_of(SweepPhase::refine) && refine()) {
    }
    confirm();
    return std::move(result_);
  }

 private:
  Evidence& evidence() { return result_.evidence; }

  std::vector<Split> splits_of(const std::vector<int>& ids) const {
    std::vector<Split> splits;
    for (const int id : ids) splits.push_back(result_.splits[static_cast<std::size_t>(id)]);
    return splits;
  }

  /// Visits the controls first, so that they are measured however short the budget is.
  void explore() {
    std::vector<Split> splits = control_splits(homes_);
    const auto controls = static_cast<std::ptrdiff_t>(splits.size());
    for (Split& split : growing_splits(homes_)) splits.push_back(std::move(split));
    std::shuffle(splits.begin() + controls, splits.end(), random_);
    visit_all(splits);
  }

  /// Visits one round of promising splits. Returns false if there are none.
  bool refine() {
    phase_ = SweepPhase::refine;
    std::vector<TriedSplit> tried;
    for (const CandidateEvidence& candidate : evidence().candidates) {
      tried.push_back(
          {result_.splits[static_cast<std::size_t>(candidate.id)],
           static_cast<double>(candidate.step_ns_median),
           static_cast<double>(candidate.step_ns_median) * std::min(1.0, candidate.roofline_ratio),
           static_cast<double>(workload_.update_interval * candidate.training_ns_median)});
    }
    std::vector<Split> splits = promising_splits(homes_, tried, limits_.accuracy);
    const auto room = static_cast<std::size_t>(limits_.splits) - result_.splits.size();
    if (splits.size() > room) splits.resize(room);
    if (splits.empty()) return false;
    // Together with those that they must beat, so that they are compared within a round.
    const std::set<int> rivals{fastest_of(evidence()).id, knee_of(evidence(), workload_).id};
    for (Split& split : splits_of({rivals.begin(), rivals.end()})) splits.push_back(std::move(split));
    visit_round(std::move(splits));
    return true;
  }

  /// Visits the undecided splits until all is decided. Visits get twice as long from round to round, so that
  /// this takes few rounds.
  void confirm() {
    phase_ = SweepPhase::confirm;
    while (!ended_ && !result_.splits.empty()) {
      const std::vector<int> ids = candidates_to_revisit(evidence(), workload_);
      if (ids.empty()) break;
      visit_round(splits_of(ids));
      if (samples_ < kMaxSamplesPerVisit) samples_ *= 2;
    }
  }

  void visit_round(std::vector<Split> splits) {
    std::shuffle(splits.begin(), splits.end(), random_);
    visit_all(splits);
  }

  void visit_all(const std::vector<Split>& splits) {
    round_size_ = static_cast<int>(splits.size());
    visit_in_round_ = 0;
    for (std::size_t i = 0; i < splits.size(); ++i) {
      if (has_time()) visit(splits[i], deadline_of_visit(splits.size() - i));
    }
    ++round_;
  }

  Nanoseconds end_of(SweepPhase phase) const {
    const double share = kPhaseEnds.at(static_cast<std::size_t>(phase));
    return start_ns_ + std::llround(share * static_cast<double>(limits_.budget_ns));
  }

  /// Returns when the next visit should end, so that all visits left in this round get the same time.
  Nanoseconds deadline_of_visit(std::size_t visits_left) {
    const Nanoseconds left = std::max<Nanoseconds>(0, end_of(phase_) - meter_.now());
    return meter_.now() + left / static_cast<Nanoseconds>(visits_left);
  }

  /// Returns the believable samples of a visit. If there are none after all repeats, returns all and warns.
  std::vector<SplitSample> measured(const Split& split, Nanoseconds deadline_ns) {
    std::vector<SplitSample> kept;
    std::vector<SplitSample> all;
    for (int attempt = 0; attempt <= kMaxRepeats; ++attempt) {
      const auto wanted = samples_ - static_cast<int>(kept.size());
      if (wanted == 0 || (attempt > 0 && !has_time())) break;
      const auto samples = meter_.measure(split, wanted, deadline_ns);
      ++result_.visits;
      for (const SplitSample& sample : samples) {
        all.push_back(sample);
        if (is_possible(sample, evidence().noise_floor)) kept.push_back(sample);
      }
      if (static_cast<int>(samples.size()) < wanted) break;  // the deadline
    }
    if (!kept.empty()) return kept;
    const std::string warning = fmt::format(
        "{}: every optimizer step was faster than its roofline by more than 15 % and three times the noise, "
        "or took more than ten times as long as it; do not trust its times",
        split.label);
    auto& warnings = result_.warnings;
    if (std::find(warnings.begin(), warnings.end(), warning) == warnings.end()) warnings.push_back(warning);
    return all;
  }

  void visit(const Split& split, Nanoseconds deadline_ns) {
    const Nanoseconds begin = meter_.now();
    const auto samples = measured(split, deadline_ns);
    longest_visit_ns_ = std::max(longest_visit_ns_, meter_.now() - begin);
    const int id = id_of(split);
    for (const SplitSample& sample : samples) evidence().samples.push_back({id, round_, sample});
    ++visit_in_round_;
    if (std::none_of(evidence().candidates.begin(), evidence().candidates.end(), is_eligible)) return;
    summarize(evidence(), workload_);
    if (progress_) {
      progress_({phase_, round_, visit_in_round_, round_size_, meter_.now() - start_ns_, limits_.budget_ns,
                 &evidence(), &evidence().candidates[static_cast<std::size_t>(id)],
                 &knee_of(evidence(), workload_)});
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
    if (!first && meter_.now() - start_ns_ + longest_visit_ns_ > limits_.budget_ns) ended_ = true;
    return !ended_;
  }

  const std::vector<Home>& homes_;
  const Workload& workload_;
  Meter& meter_;
  SweepLimits limits_;
  const std::function<void(const SweepProgress&)>& progress_;
  int samples_;  ///< wanted of a visit
  std::mt19937 random_;
  SweepResult result_;
  SweepPhase phase_ = SweepPhase::explore;
  int round_ = 0;
  int visit_in_round_ = 0;
  int round_size_ = 0;
  Nanoseconds start_ns_;
  Nanoseconds longest_visit_ns_ = 0;
  bool ended_ = false;
};

}  // namespace

SweepResult sweep(const std::vector<Home>& homes, const Workload& workload, Meter& meter,
                  const SweepLimits& limits, const std::function<void(const SweepProgress&)>& progress) {
  return Sweep(homes, workload, meter, limits, progress).run();
}

}  // namespace zf
