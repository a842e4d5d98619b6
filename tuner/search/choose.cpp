#include "search/choose.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "search/decision.hpp"
#include "text/units.hpp"

namespace zf {
namespace {

PoolSize pool_size_of(const CandidateEvidence& candidate) {
  return {candidate.pool_threads, candidate.pool_cores};
}

std::string cores(int count) { return fmt::format("{} core{}", count, count == 1 ? "" : "s"); }

/// Returns "The optimizer's step of 16.2 ms hides behind 1 training step of 36.0 ms", or says how much of the
/// step is exposed.
std::string sides_in_words(const CandidateEvidence& chosen, int update_interval) {
  if (chosen.training_ns_median == 0) return "No training side was measured";
  const std::string steps =
      fmt::format("{} training step{} of {}{}", update_interval, update_interval == 1 ? "" : "s",
                  print_duration(chosen.training_ns_median), update_interval == 1 ? "" : " each");
  const std::string step = print_duration(chosen.step_ns_median);
  if (chosen.exposed_ns_median == 0) {
    return fmt::format("The optimizer's step of {} hides behind {}", step, steps);
  }
  return fmt::format("The optimizer's step of {} does not fully hide behind {}: {} of it are exposed", step,
                     steps, print_duration(chosen.exposed_ns_median));
}

/// Returns "4 cores of each rank train, 2 cores run the optimizer, 1 core stays idle".
std::string cores_in_words(const CandidateEvidence& chosen) {
  std::string text = fmt::format("{} of each rank train{}, {} run{} the optimizer",
                                 cores(chosen.reserved_cores), chosen.reserved_cores == 1 ? "s" : "",
                                 cores(chosen.pool_cores), chosen.pool_cores == 1 ? "s" : "");
  if (chosen.idle_cores > 0) {
    text += fmt::format(", {} stay{} idle", cores(chosen.idle_cores), chosen.idle_cores == 1 ? "s" : "");
  }
  return text;
}

/// Says whether a pool smaller than the fastest one may tie with it. Precondition: the fastest one is the
/// knee, so no smaller pool is known to tie.
std::string smaller_pools_in_words(const Evidence& evidence, const Workload& workload) {
  const CandidateEvidence& fastest = fastest_of(evidence);
  const double tie = tie_of(evidence);
  const CandidateEvidence* open = nullptr;
  for (const CandidateEvidence& candidate : evidence.candidates) {
    if (!is_eligible(candidate) || pool_size_of(candidate) >= pool_size_of(fastest)) continue;
    const Difference slower = period_difference(evidence, workload, fastest.id, candidate.id);
    if ((std::isinf(slower.high) ? slower.estimate : slower.low) > tie) continue;
    if (open == nullptr || candidate.period_ns_median < open->period_ns_median) open = &candidate;
  }
  if (open == nullptr) return fmt::format("No smaller pool comes within {:.1f} % of that", 100 * tie);
  return fmt::format(
      "A smaller pool may come within {:.1f} % of that: \"{}\" took {}, and the samples do not decide it",
      100 * tie, open->label, print_duration(open->period_ns_median));
}

std::string reason_for_knee(const Evidence& evidence, const Workload& workload,
                            const CandidateEvidence& knee) {
  const CandidateEvidence& fastest = fastest_of(evidence);
  const std::string period = print_duration(knee.period_ns_median);
  const std::string both_sides = sides_in_words(knee, workload.update_interval);
  const auto eligible = std::count_if(evidence.candidates.begin(), evidence.candidates.end(), is_eligible);
  if (knee.reserved_cores == 0) {
    return fmt::format("A rank has only one core, so training and the optimizer share it. A period takes {}",
                       period);
  }
  if (eligible == 1) {
    return fmt::format(
        "There is only one split: {} for the optimizer, {} for training. A period takes {}. {}",
        cores(knee.pool_cores), cores(knee.reserved_cores), period, both_sides);
  }
  if (knee.id == fastest.id) {
    return fmt::format("The split \"{}\" has the shortest period, {}. {}. {}. {}", knee.label, period,
                       smaller_pools_in_words(evidence, workload), cores_in_words(knee), both_sides);
  }
  return fmt::format(
      "The split \"{}\" has the smallest pool that ties with the shortest period: {} against {} for \"{}\". "
      "Differences up to {:.1f} % are ties. {}. {}",
      knee.label, period, print_duration(fastest.period_ns_median), fastest.label, 100 * tie_of(evidence),
      cores_in_words(knee), both_sides);
}

std::string reason_for_conservative(const Evidence& evidence, const CandidateEvidence& half) {
  const CandidateEvidence& fastest = fastest_of(evidence);
  return fmt::format(
      "Nothing beats the noise: differences under {:.1f} % cannot be told apart here, and no split is faster "
      "than half and half, {}, by more than that. The shortest period was {} for \"{}\". So this is the "
      "conservative plan: half and half, DeepSpeed's own default",
      100 * evidence.noise_floor, print_duration(half.period_ns_median),
      print_duration(fastest.period_ns_median), fastest.label);
}

/// Says that running unbound was faster than this choice. Empty if it was not.
std::string unbound_note(const Evidence& evidence, const Workload& workload,
                         const CandidateEvidence& chosen) {
  const CandidateEvidence* unbound = control_of(evidence, Control::unbound);
  if (unbound == nullptr) return "";
  const Difference slower = period_difference(evidence, workload, unbound->id, chosen.id);
  if (slower.low <= tie_of(evidence)) return "";
  return fmt::format(
      ". But unbound was {:.1f} % faster: {}. No plan can express that: try the job without a plan",
      100 * (1 - 1 / (1 + slower.estimate)), print_duration(unbound->period_ns_median));
}

}  // namespace

Choice choose(const Evidence& evidence, const Workload& workload) {
  const Verdict verdict = decide(evidence, workload);
  const CandidateEvidence& chosen = evidence.candidates[verdict.winner];
  Choice choice;
  choice.reason = verdict.conservative ? reason_for_conservative(evidence, chosen)
                                       : reason_for_knee(evidence, workload, chosen);
  choice.reason += unbound_note(evidence, workload, chosen);
  choice.candidate = chosen.id;
  choice.period_ns_median = chosen.period_ns_median;
  choice.pool_threads = chosen.pool_threads;
  return choice;
}

}  // namespace zf
