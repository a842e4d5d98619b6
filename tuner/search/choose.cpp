#include "search/choose.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "search/decision.hpp"
#include "text/units.hpp"

namespace zf {
namespace {

PoolSize size_of(const CandidateEvidence& candidate) {
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
    if (!is_eligible(candidate) || size_of(candidate) >= size_of(fastest)) continue;
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

std::string reason_for_conservative(const Evidence& evidence, const CandidateEvidence& half) {
  const CandidateEvidence& fastest = fastest_of(evidence);
  return fmt::format(
      "nothing beats the noise: differences under {:.1f} % cannot be told here, and no split is surely "
      "faster "
      "than half and half ({}; {} at {}); so this is the conservative plan, DeepSpeed's own default",
      100 * evidence.noise_floor, print_duration(half.period_ns_median), fastest.label,
      print_duration(fastest.period_ns_median));
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
