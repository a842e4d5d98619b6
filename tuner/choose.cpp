#include "tuner/choose.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <tuple>

#include "tuner/statistics.hpp"
#include "tuner/values.hpp"

namespace zf {
namespace {

const CandidateEvidence& fastest_of(const Evidence& evidence) {
  assert(!evidence.candidates.empty());
  const auto rank = [](const CandidateEvidence& candidate) {
    return std::tuple(!is_eligible(candidate), candidate.period_ns_median);
  };
  return *std::min_element(evidence.candidates.begin(), evidence.candidates.end(),
                           [&](const auto& a, const auto& b) { return rank(a) < rank(b); });
}

std::string cores(int count) { return fmt::format("{} core{}", count, count == 1 ? "" : "s"); }

std::string reason_for(const Evidence& evidence, const CandidateEvidence& knee) {
  const CandidateEvidence& fastest = fastest_of(evidence);
  const std::string step = print_duration(knee.period_ns_median);
  if (knee.reserved_cores == 0) {
    return fmt::format("a rank has one core, which training and optimizer share: {} per step", step);
  }
  if (evidence.candidates.size() == 1) {
    return fmt::format("the only split there is: {} for the optimizer, {} for training, {} per step",
                       cores(knee.pool_cores), cores(knee.reserved_cores), step);
  }
  const std::string rest = fmt::format("the other {} of each rank train", cores(knee.reserved_cores));
  if (knee.id == fastest.id) {
    return fmt::format(
        "{} ({}) is the fastest pool at {} per step, and no smaller one comes within {:.1f} %; {}",
        cores(knee.pool_cores), knee.label, step, 100 * tie_of(evidence), rest);
  }
  return fmt::format(
      "{} ({}) take {} per step, a tie (within {:.1f} %) with the fastest pool ({} at {}): memory bandwidth "
      "is "
      "saturated, so {}",
      cores(knee.pool_cores), knee.label, step, 100 * tie_of(evidence), fastest.label,
      print_duration(fastest.period_ns_median), rest);
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

}  // namespace

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

void summarize(Evidence& evidence, int ranks, int update_interval) {
  std::vector<double> noises;
  for (CandidateEvidence& candidate : evidence.candidates) {
    summarize_candidate(candidate, evidence.samples, update_interval);
    const auto samples =
        std::count_if(evidence.samples.begin(), evidence.samples.end(),
                      [&](const Sample& sample) { return sample.candidate == candidate.id; });
    if (samples >= 2) noises.push_back(candidate.period_spread / std::sqrt(static_cast<double>(samples)));
  }
  evidence.noise_floor = noises.empty() ? 0 : median(noises);

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

double tie_of(const Evidence& evidence) { return std::max(kTie, evidence.noise_floor); }

bool is_eligible(const CandidateEvidence& candidate) { return candidate.control != Control::unbound; }

const CandidateEvidence& knee_of(const Evidence& evidence) {
  const auto limit = static_cast<double>(fastest_of(evidence).period_ns_median) * (1 + tie_of(evidence));
  const auto rank = [&](const CandidateEvidence& candidate) {
    const bool ties = static_cast<double>(candidate.period_ns_median) <= limit;
    return std::tuple(!is_eligible(candidate), !ties, candidate.pool_threads, candidate.pool_cores,
                      candidate.period_ns_median);
  };
  return *std::min_element(evidence.candidates.begin(), evidence.candidates.end(),
                           [&](const auto& a, const auto& b) { return rank(a) < rank(b); });
}

Choice choose(const Evidence& evidence) {
  const CandidateEvidence& knee = knee_of(evidence);
  Choice choice;
  choice.reason = reason_for(evidence, knee);
  choice.candidate = knee.id;
  choice.period_ns_median = knee.period_ns_median;
  choice.pool_threads = knee.pool_threads;
  return choice;
}

}  // namespace zf
