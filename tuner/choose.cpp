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
  return *std::min_element(evidence.candidates.begin(), evidence.candidates.end(),
                           [](const auto& a, const auto& b) { return a.step_ns_median < b.step_ns_median; });
}

std::string cores(int count) { return fmt::format("{} core{}", count, count == 1 ? "" : "s"); }

std::string reason_for(const Evidence& evidence, const CandidateEvidence& knee) {
  const CandidateEvidence& fastest = fastest_of(evidence);
  const std::string step = print_duration(knee.step_ns_median);
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
      print_duration(fastest.step_ns_median), rest);
}

void summarize_candidate(CandidateEvidence& candidate, const std::vector<Sample>& samples) {
  std::vector<double> steps;
  std::vector<double> ratios;
  for (const Sample& sample : samples) {
    if (sample.candidate != candidate.id) continue;
    steps.push_back(static_cast<double>(sample.step_ns));
    ratios.push_back(static_cast<double>(sample.roofline_ns) / static_cast<double>(sample.step_ns));
  }
  if (steps.empty()) return;
  candidate.step_ns_median = std::llround(median(steps));
  candidate.step_spread = relative_spread(steps);
  candidate.roofline_ratio = median(ratios);
}

}  // namespace

void summarize(Evidence& evidence, int ranks) {
  std::vector<double> noises;
  for (CandidateEvidence& candidate : evidence.candidates) {
    summarize_candidate(candidate, evidence.samples);
    const auto samples =
        std::count_if(evidence.samples.begin(), evidence.samples.end(),
                      [&](const Sample& sample) { return sample.candidate == candidate.id; });
    if (samples >= 2) noises.push_back(candidate.step_spread / std::sqrt(static_cast<double>(samples)));
  }
  evidence.noise_floor = noises.empty() ? 0 : median(noises);

  const CandidateEvidence& fastest = fastest_of(evidence);
  std::vector<double> rooflines;
  for (const Sample& sample : evidence.samples) {
    if (sample.candidate == fastest.id) rooflines.push_back(static_cast<double>(sample.roofline_ns));
  }
  if (rooflines.empty()) return;
  const auto bytes = static_cast<double>(evidence.elements_per_rank * kAdamBytesPerParam) * ranks;
  evidence.roofline.bytes_per_s_median = bytes / (median(rooflines) / static_cast<double>(kSecondNs));
  evidence.roofline.threads = fastest.pool_threads * ranks;
}

double tie_of(const Evidence& evidence) { return std::max(kTie, evidence.noise_floor); }

const CandidateEvidence& knee_of(const Evidence& evidence) {
  const auto limit = static_cast<double>(fastest_of(evidence).step_ns_median) * (1 + tie_of(evidence));
  const auto rank = [&](const CandidateEvidence& candidate) {
    const bool ties = static_cast<double>(candidate.step_ns_median) <= limit;
    return std::tuple(!ties, candidate.pool_threads, candidate.pool_cores, candidate.step_ns_median);
  };
  return *std::min_element(evidence.candidates.begin(), evidence.candidates.end(),
                           [&](const auto& a, const auto& b) { return rank(a) < rank(b); });
}

Choice choose(const Evidence& evidence) {
  const CandidateEvidence& knee = knee_of(evidence);
  Choice choice;
  choice.reason = reason_for(evidence, knee);
  choice.candidate = knee.id;
  choice.period_ns_median = knee.step_ns_median;
  choice.pool_threads = knee.pool_threads;
  return choice;
}

}  // namespace zf
