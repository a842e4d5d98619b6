#include "search/decision.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <set>

namespace zf {
namespace {

constexpr int kMinVisits = 2;
constexpr double kMaxStepAboveRoofline = 0.15;  // a step may be this much faster than its roofline
constexpr double kSlowestPart = 0.1;            // of the roofline: a slower step is not believed
constexpr double kUnknownAccuracy = 1;          // stands for an unbounded interval

void summarize_candidate(CandidateEvidence& candidate, const std::vector<Sample>& samples,
                         int update_interval) {
  std::vector<double> period;
  std::vector<double> step;
  std::vector<double> training;
  std::vector<double> exposed;
  std::vector<double> delay_p50;
  std::vector<double> delay_p99;
  std::vector<double> ratio;
  for (const auto& [id, round, times] : samples) {
    if (id != candidate.id) continue;
    period.push_back(static_cast<double>(period_ns(times, update_interval)));
    step.push_back(static_cast<double>(times.step_ns));
    training.push_back(static_cast<double>(times.training_ns));
    exposed.push_back(static_cast<double>(exposed_ns(times, update_interval)));
    delay_p50.push_back(static_cast<double>(times.launch_delay_p50_ns));
    delay_p99.push_back(static_cast<double>(times.launch_delay_p99_ns));
    ratio.push_back(static_cast<double>(times.roofline_ns) / static_cast<double>(times.step_ns));
  }
  if (period.empty()) return;
  candidate.period_ns_median = std::llround(median(period));
  candidate.period_spread = relative_spread(period);
  candidate.step_ns_median = std::llround(median(step));
  candidate.step_spread = relative_spread(step);
  candidate.training_ns_median = std::llround(median(training));
  candidate.training_spread = candidate.training_ns_median == 0 ? 0 : relative_spread(training);
  candidate.exposed_ns_median = std::llround(median(exposed));
  candidate.launch_delay_p50_ns = std::llround(median(delay_p50));
  candidate.launch_delay_p99_ns = std::llround(median(delay_p99));
  candidate.roofline_ratio = median(ratio);
}

void summarize_roofline(Evidence& evidence, int ranks) {
  const CandidateEvidence& fastest = fastest_of(evidence);
  std::vector<double> rooflines;
  for (const Sample& sample : evidence.samples) {
    if (sample.candidate == fastest.id) rooflines.push_back(static_cast<double>(sample.times.roofline_ns));
  }
  if (rooflines.empty()) return;
  const auto bytes = static_cast<double>(evidence.elements_per_rank * kAdamBytesPerParam) * ranks;
  evidence.roofline.bytes_per_s_median = bytes / (median(rooflines) / static_cast<double>(kSecondNs));
  evidence.roofline.threads = fastest.pool_threads * ranks;
}

/// Returns the indexes of the contenders whose differences to the fastest one decide the choice: the knee and
/// the second fastest.
std::set<std::size_t> rivals_of(const std::vector<Contender>& contenders, double tie) {
  const std::size_t fastest = fastest_index(contenders);
  std::set<std::size_t> rivals{knee_index(contenders, tie)};
  const Contender* second = nullptr;
  for (const Contender& contender : contenders) {
    if (&contender == &contenders[fastest]) continue;
    if (second == nullptr || contender.median < second->median) second = &contender;
  }
  if (second != nullptr) rivals.insert(static_cast<std::size_t>(second - contenders.data()));
  rivals.erase(fastest);
  return rivals;
}

/// Returns half of the widest interval among the differences that decide the choice.
double accuracy_of(const std::vector<Contender>& contenders, double tie) {
  const Contender& fastest = contenders[fastest_index(contenders)];
  double accuracy = 0;
  for (const std::size_t rival : rivals_of(contenders, tie)) {
    const double half = difference_of(fastest, contenders[rival]).half_width();
    accuracy = std::max(accuracy, std::min(half, kUnknownAccuracy));
  }
  return accuracy;
}

std::size_t index_of(const Evidence& evidence, int id) {
  const auto& candidates = evidence.candidates;
  const auto found = std::find_if(candidates.begin(), candidates.end(),
                                  [&](const CandidateEvidence& candidate) { return candidate.id == id; });
  assert(found != candidates.end());
  return static_cast<std::size_t>(found - candidates.begin());
}

}  // namespace

const CandidateEvidence* control_of(const Evidence& evidence, Control control) {
  for (const CandidateEvidence& candidate : evidence.candidates) {
    if (candidate.control == control) return &candidate;
  }
  return nullptr;
}

CandidateEvidence new_candidate(int id, const Split& split) {
  CandidateEvidence candidate;
  candidate.id = id;
  candidate.label = split.label;
  candidate.control = split.shape.control;
  candidate.placement = split.shape.placement;
  candidate.pool_kind = split.shape.pool_kind;
  candidate.reserved_cores = split.ranks.front().reserved_cores;
  for (const RankSplit& rank : split.ranks) {
    candidate.reserved_cores = std::min(candidate.reserved_cores, rank.reserved_cores);
    candidate.pool_cores = std::max(candidate.pool_cores, rank.pool_cores);
    candidate.pool_threads = std::max(candidate.pool_threads, static_cast<int>(rank.pool.size()));
    candidate.idle_cores = std::max(candidate.idle_cores, rank.idle_cores);
  }
  return candidate;
}

bool is_eligible(const CandidateEvidence& candidate) { return candidate.control != Control::unbound; }

bool is_possible(const SplitSample& sample, double noise) {
  const double ratio = static_cast<double>(sample.roofline_ns) / static_cast<double>(sample.step_ns);
  return ratio <= 1 + std::max(kMaxStepAboveRoofline, 3 * noise) && ratio >= kSlowestPart;
}

std::vector<Contender> contenders_of(const Evidence& evidence, const Workload& workload) {
  std::vector<Contender> contenders;
  for (const CandidateEvidence& candidate : evidence.candidates) {
    Contender contender;
    contender.eligible = is_eligible(candidate);
    contender.control = candidate.control;
    contender.pool = {candidate.pool_threads, candidate.pool_cores};
    contender.median = static_cast<double>(candidate.period_ns_median);
    for (const Sample& sample : evidence.samples) {
      if (sample.candidate != candidate.id) continue;
      const Nanoseconds period = period_ns(sample.times, workload.update_interval);
      contender.times.push_back({sample.round, static_cast<double>(period)});
    }
    contenders.push_back(std::move(contender));
  }
  return contenders;
}

void summarize(Evidence& evidence, const Workload& workload) {
  for (CandidateEvidence& candidate : evidence.candidates) {
    summarize_candidate(candidate, evidence.samples, workload.update_interval);
  }
  const std::vector<Contender> contenders = contenders_of(evidence, workload);
  evidence.noise_floor = noise_floor(contenders);
  evidence.accuracy_reached = accuracy_of(contenders, tie_of(evidence));
  summarize_roofline(evidence, workload.ranks);
}

double tie_of(const Evidence& evidence) { return std::max(evidence.accuracy_wanted, evidence.noise_floor); }

const CandidateEvidence& fastest_of(const Evidence& evidence) {
  assert(!evidence.candidates.empty());
  const auto key = [](const CandidateEvidence& candidate) {
    return std::pair(!is_eligible(candidate), candidate.period_ns_median);
  };
  return *std::min_element(evidence.candidates.begin(), evidence.candidates.end(),
                           [&](const auto& a, const auto& b) { return key(a) < key(b); });
}

Difference period_difference(const Evidence& evidence, const Workload& workload, int a, int b) {
  const std::vector<Contender> contenders = contenders_of(evidence, workload);
  return difference_of(contenders[index_of(evidence, a)], contenders[index_of(evidence, b)]);
}

const CandidateEvidence& knee_of(const Evidence& evidence, const Workload& workload) {
  return evidence.candidates[knee_index(contenders_of(evidence, workload), tie_of(evidence))];
}

std::vector<int> candidates_to_revisit(const Evidence& evidence, const Workload& workload) {
  const std::vector<Contender> contenders = contenders_of(evidence, workload);
  const double tie = tie_of(evidence);
  const double wanted = evidence.accuracy_wanted;
  const std::size_t fastest = fastest_index(contenders);
  const std::size_t knee = knee_index(contenders, tie);
  const std::set<std::size_t> rivals = rivals_of(contenders, tie);
  std::set<std::size_t> revisit;
  for (std::size_t i = 0; i < contenders.size(); ++i) {
    if (i == fastest) continue;
    const Difference slower = difference_of(contenders[fastest], contenders[i]);
    if (slower.half_width() <= wanted) continue;
    const bool may_be_faster = slower.low < -wanted;
    const bool may_tie = contenders[i].pool.threads <= contenders[knee].pool.threads && slower.low < tie;
    const bool matters = may_tie || rivals.contains(i);
    if (may_be_faster || (matters && contenders[i].eligible)) revisit.insert(i);
  }
  // The choice may fall back to half and half, unless that is clearly slower.
  std::vector<std::size_t> needed{fastest, knee};
  const int half = control_index(contenders, Control::half);
  if (half >= 0) {
    const auto index = static_cast<std::size_t>(half);
    if (difference_of(contenders[fastest], contenders[index]).low <= tie) needed.push_back(index);
  }
  const bool noisy = evidence.noise_floor > wanted;
  for (const std::size_t i : needed) {
    if (noisy || block_count(contenders[i]) < kMinVisits) revisit.insert(i);
  }
  if (!revisit.empty()) revisit.insert(fastest);
  std::vector<int> ids;
  for (const std::size_t i : revisit) ids.push_back(evidence.candidates[i].id);
  std::sort(ids.begin(), ids.end());
  return ids;
}

Verdict decide(const Evidence& evidence, const Workload& workload) {
  return judge(contenders_of(evidence, workload), evidence.accuracy_wanted, evidence.noise_floor);
}

}  // namespace zf
