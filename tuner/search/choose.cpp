#include "search/choose.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <set>
#include <tuple>

#include "text/units.hpp"

namespace zf {
namespace {

constexpr int kMinVisits = 2;
constexpr double kHonestExcess = 0.15;  // a step above its roofline by this is still believed
constexpr double kSlowestPart = 0.1;    // of the roofline
constexpr double kUnknownAccuracy = 1;  // an interval without end, as a number

std::vector<Observation> periods_of(const Evidence& evidence, const Workload& workload, int id) {
  std::vector<Observation> periods;
  for (const Sample& sample : evidence.samples) {
    if (sample.candidate != id) continue;
    periods.push_back({sample.round, static_cast<double>(period_ns(sample.times, workload.update_interval))});
  }
  return periods;
}

int visits_of(const Evidence& evidence, int id) {
  std::set<int> rounds;
  for (const Sample& sample : evidence.samples) {
    if (sample.candidate == id) rounds.insert(sample.round);
  }
  return static_cast<int>(rounds.size());
}

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

double noise_floor_of(const Evidence& evidence, const Workload& workload) {
  std::vector<std::vector<Observation>> candidates;
  for (const CandidateEvidence& candidate : evidence.candidates) {
    candidates.push_back(periods_of(evidence, workload, candidate.id));
  }
  return noise_between_blocks(candidates, visits_of(evidence, fastest_of(evidence).id));
}

/// Those whose differences to the fastest the choice rests on: the knee, and the next fastest.
std::set<int> rivals_of(const Evidence& evidence, const Workload& workload) {
  const CandidateEvidence& fastest = fastest_of(evidence);
  std::set<int> rivals{knee_of(evidence, workload).id};
  const CandidateEvidence* second = nullptr;
  for (const CandidateEvidence& candidate : evidence.candidates) {
    if (candidate.id == fastest.id) continue;
    if (second == nullptr || candidate.period_ns_median < second->period_ns_median) second = &candidate;
  }
  if (second != nullptr) rivals.insert(second->id);
  rivals.erase(fastest.id);
  return rivals;
}

/// The widest of these intervals.
double accuracy_of(const Evidence& evidence, const Workload& workload) {
  const int fastest = fastest_of(evidence).id;
  double accuracy = 0;
  for (const int id : rivals_of(evidence, workload)) {
    const double half = difference(evidence, workload, fastest, id).half_width();
    accuracy = std::max(accuracy, std::min(half, kUnknownAccuracy));
  }
  return accuracy;
}

/// Half and half, where the noise is above the accuracy wanted and all that any split is faster than that.
const CandidateEvidence* conservative(const Evidence& evidence, const Workload& workload) {
  const CandidateEvidence* half = control_of(evidence, Control::half);
  if (half == nullptr || evidence.noise_floor <= evidence.accuracy_wanted) return nullptr;
  const auto beats_it = [&](const CandidateEvidence& candidate) {
    return is_eligible(candidate) && candidate.id != half->id &&
           !is_noise(difference(evidence, workload, candidate.id, half->id), evidence.noise_floor);
  };
  const auto& candidates = evidence.candidates;
  return std::any_of(candidates.begin(), candidates.end(), beats_it) ? nullptr : half;
}

std::pair<int, int> size_of_pool(const CandidateEvidence& candidate) {
  return {candidate.pool_threads, candidate.pool_cores};
}

std::string cores(int count) { return fmt::format("{} core{}", count, count == 1 ? "" : "s"); }

/// "the optimizer's 16.2 ms hide behind 1 training step of 36.0 ms", or what of it stays exposed.
std::string sides(const CandidateEvidence& chosen, int update_interval) {
  if (chosen.training_ns_median == 0) return "no training side was measured";
  const std::string steps =
      fmt::format("{} training step{} of {}", update_interval, update_interval == 1 ? "" : "s",
                  print_duration(chosen.training_ns_median));
  const std::string step = print_duration(chosen.step_ns_median);
  if (chosen.exposed_ns_median == 0) return fmt::format("the optimizer's {} hide behind {}", step, steps);
  return fmt::format("of the optimizer's {} {} are exposed beyond {}", step,
                     print_duration(chosen.exposed_ns_median), steps);
}

/// What is known of the pools that are smaller than the fastest, which is the knee: none surely ties.
std::string smaller_pools(const Evidence& evidence, const Workload& workload) {
  const CandidateEvidence& fastest = fastest_of(evidence);
  const double tie = tie_of(evidence);
  const CandidateEvidence* open = nullptr;
  for (const CandidateEvidence& candidate : evidence.candidates) {
    if (!is_eligible(candidate) || size_of_pool(candidate) >= size_of_pool(fastest)) continue;
    const Difference slower = difference(evidence, workload, fastest.id, candidate.id);
    if ((std::isinf(slower.high) ? slower.estimate : slower.low) > tie) continue;
    if (open == nullptr || candidate.period_ns_median < open->period_ns_median) open = &candidate;
  }
  if (open == nullptr) return fmt::format("no smaller pool comes within {:.1f} %", 100 * tie);
  return fmt::format("that a smaller pool ({} at {}) comes within {:.1f} % is neither sure nor ruled out",
                     open->label, print_duration(open->period_ns_median), 100 * tie);
}

std::string reason_for_knee(const Evidence& evidence, const Workload& workload,
                            const CandidateEvidence& knee) {
  const CandidateEvidence& fastest = fastest_of(evidence);
  const std::string period = print_duration(knee.period_ns_median);
  const auto eligible = std::count_if(evidence.candidates.begin(), evidence.candidates.end(), is_eligible);
  if (knee.reserved_cores == 0) {
    return fmt::format("a rank has one core, which training and optimizer share: {} per period", period);
  }
  if (eligible == 1) {
    return fmt::format("the only split there is: {} for the optimizer, {} for training, {} per period; {}",
                       cores(knee.pool_cores), cores(knee.reserved_cores), period,
                       sides(knee, workload.update_interval));
  }
  std::string rest = fmt::format("{} of each rank train", cores(knee.reserved_cores));
  if (knee.idle_cores > 0) rest += fmt::format(" and {} idle", knee.idle_cores);
  if (knee.id == fastest.id) {
    return fmt::format("{} ({}) has the shortest period, {}, and {}; {}; {}", cores(knee.pool_cores),
                       knee.label, period, smaller_pools(evidence, workload), rest,
                       sides(knee, workload.update_interval));
  }
  return fmt::format(
      "{} ({}) is the smallest pool whose period, {}, ties (within {:.1f} %) with the shortest ({} at {}); "
      "{}; {}",
      cores(knee.pool_cores), knee.label, period, 100 * tie_of(evidence), fastest.label,
      print_duration(fastest.period_ns_median), rest, sides(knee, workload.update_interval));
}

/// What must not be kept from the user: running unbound was faster than anything that a plan can say.
std::string unbound_note(const Evidence& evidence, const Workload& workload,
                         const CandidateEvidence& chosen) {
  const CandidateEvidence* unbound = control_of(evidence, Control::unbound);
  if (unbound == nullptr) return "";
  const Difference slower = difference(evidence, workload, unbound->id, chosen.id);
  if (slower.low <= tie_of(evidence)) return "";
  return fmt::format("; yet unbound was {:.1f} % faster ({}), which no plan can say: try the job without one",
                     100 * (1 - 1 / (1 + slower.estimate)), print_duration(unbound->period_ns_median));
}

}  // namespace

const CandidateEvidence* control_of(const Evidence& evidence, Control control) {
  for (const CandidateEvidence& candidate : evidence.candidates) {
    if (candidate.control == control) return &candidate;
  }
  return nullptr;
}

CandidateEvidence candidate_of(int id, const Split& split) {
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
  return ratio <= 1 + std::max(kHonestExcess, 3 * noise) && ratio >= kSlowestPart;
}

void summarize(Evidence& evidence, const Workload& workload) {
  for (CandidateEvidence& candidate : evidence.candidates) {
    summarize_candidate(candidate, evidence.samples, workload.update_interval);
  }
  evidence.noise_floor = noise_floor_of(evidence, workload);
  evidence.accuracy_reached = accuracy_of(evidence, workload);
  summarize_roofline(evidence, workload.ranks);
}

double tie_of(const Evidence& evidence) { return std::max(evidence.accuracy_wanted, evidence.noise_floor); }

const CandidateEvidence& fastest_of(const Evidence& evidence) {
  assert(!evidence.candidates.empty());
  const auto rank = [](const CandidateEvidence& candidate) {
    return std::tuple(!is_eligible(candidate), candidate.period_ns_median);
  };
  return *std::min_element(evidence.candidates.begin(), evidence.candidates.end(),
                           [&](const auto& a, const auto& b) { return rank(a) < rank(b); });
}

Difference difference(const Evidence& evidence, const Workload& workload, int a, int b) {
  return compare(periods_of(evidence, workload, a), periods_of(evidence, workload, b));
}

const CandidateEvidence& knee_of(const Evidence& evidence, const Workload& workload) {
  const CandidateEvidence& fastest = fastest_of(evidence);
  const double tie = tie_of(evidence);
  const CandidateEvidence* knee = &fastest;
  for (const CandidateEvidence& candidate : evidence.candidates) {
    if (!is_eligible(candidate) || size_of_pool(candidate) >= size_of_pool(*knee)) continue;
    if (is_tie(difference(evidence, workload, fastest.id, candidate.id), tie)) knee = &candidate;
  }
  return *knee;
}

std::vector<int> undecided(const Evidence& evidence, const Workload& workload) {
  const CandidateEvidence& fastest = fastest_of(evidence);
  const CandidateEvidence& knee = knee_of(evidence, workload);
  const double tie = tie_of(evidence);
  const double wanted = evidence.accuracy_wanted;
  const std::set<int> rivals = rivals_of(evidence, workload);
  std::set<int> ids;
  for (const CandidateEvidence& candidate : evidence.candidates) {
    if (candidate.id == fastest.id) continue;
    const Difference slower = difference(evidence, workload, fastest.id, candidate.id);
    if (slower.half_width() <= wanted) continue;
    const bool may_be_faster = slower.low < -wanted;
    const bool may_tie = candidate.pool_threads <= knee.pool_threads && slower.low < tie;
    const bool matters = may_tie || rivals.contains(candidate.id);
    if (may_be_faster || (matters && is_eligible(candidate))) ids.insert(candidate.id);
  }
  // Half and half is what the choice falls back to, unless it is surely slower.
  const CandidateEvidence* half = control_of(evidence, Control::half);
  if (half != nullptr && difference(evidence, workload, fastest.id, half->id).low > tie) half = nullptr;
  const bool noisy = evidence.noise_floor > wanted;
  for (const CandidateEvidence* candidate : {&fastest, &knee, half}) {
    if (candidate == nullptr) continue;
    if (noisy || visits_of(evidence, candidate->id) < kMinVisits) ids.insert(candidate->id);
  }
  if (!ids.empty()) ids.insert(fastest.id);
  return {ids.begin(), ids.end()};
}

Choice choose(const Evidence& evidence, const Workload& workload) {
  const CandidateEvidence& knee = knee_of(evidence, workload);
  const CandidateEvidence* chosen = &knee;
  Choice choice;
  choice.reason = reason_for_knee(evidence, workload, knee);
  if (const CandidateEvidence* half = conservative(evidence, workload); half != nullptr && half != &knee) {
    chosen = half;
    choice.reason = fmt::format(
        "nothing beats the noise: differences under {:.1f} % cannot be told here, and no split is surely "
        "faster than half and half ({}; {} at {}); so this is the conservative plan, DeepSpeed's own default",
        100 * evidence.noise_floor, print_duration(half->period_ns_median), fastest_of(evidence).label,
        print_duration(fastest_of(evidence).period_ns_median));
  }
  choice.reason += unbound_note(evidence, workload, *chosen);
  choice.candidate = chosen->id;
  choice.period_ns_median = chosen->period_ns_median;
  choice.pool_threads = chosen->pool_threads;
  return choice;
}

}  // namespace zf
