#include "report/recorded_words.hpp"

#include <cmath>

#include "base/format.hpp"
#include "report/comparisons.hpp"
#include "search/contest.hpp"
#include "text/units.hpp"

namespace zf {
namespace {

/// Returns ". For the job itself expect plan / unbound 0.914 (0.867 to 0.964)", by how much longer unbound
/// takes than the plan; empty if that is not known.
std::string ratio_in_words(const Difference& longer) {
  if (!longer.is_known()) return "";
  const Difference plan = with_forecast_error(inverse(longer));
  return format_text(". For the job itself expect plan / unbound {:.3f} ({:.3f} to {:.3f})",
                     1 + plan.estimate, 1 + plan.low, 1 + plan.high);
}

}  // namespace

std::string estimates_in_words(const WorkloadFile& file) {
  if (file.estimates.empty()) return "";
  return format_text("estimates, not measured: {}\n", join_text(file.estimates, ", "));
}

std::string recorded_in_words(const WorkloadFile& file) {
  const Workload& workload = file.workload;
  std::string text =
      format_text("{} in mode {}, update interval {}, {} parameters, {}\n", name_of(workload.framework),
                  name_of(workload.mode), workload.update_interval, print_quantity(workload.params),
                  print_count(workload.ranks, "rank"));
  if (file.recorded) {
    const Recorded& recorded = *file.recorded;
    text += format_text("period {}, training step {} (forward {}, backward {})",
                        print_duration(recorded.period_ns), print_duration(recorded.training_ns),
                        print_duration(recorded.forward_ns), print_duration(recorded.backward_ns));
    if (recorded.step_ns) text += format_text(", optimizer step {}", print_duration(*recorded.step_ns));
    if (workload.step_factor) text += format_text(" ({:.2f} times ours)", *workload.step_factor);
    if (recorded.backward_one_thread_ns && recorded.backward_all_threads_ns) {
      text += format_text("\na backward takes {} with one thread and {} with {}",
                          print_duration(*recorded.backward_one_thread_ns),
                          print_duration(*recorded.backward_all_threads_ns), recorded.threads);
      if (*recorded.backward_one_thread_ns < *recorded.backward_all_threads_ns)
        text += "; if other programs use these CPUs, record again without them";
    }
    text += "\n";
  }
  return text + estimates_in_words(file);
}

Difference with_forecast_error(const Difference& measured) {
  const double estimate = std::log1p(measured.estimate);
  const auto further = [](double half_width) { return std::hypot(half_width, kForecastError); };
  return {measured.estimate, std::expm1(estimate - further(estimate - std::log1p(measured.low))),
          std::expm1(estimate + further(std::log1p(measured.high) - estimate))};
}

std::string forecast_in_words(const WorkloadFile& file, const Plan& plan) {
  const Evidence& evidence = plan.evidence;
  const CandidateEvidence* unbound = control_of(evidence, Control::unbound);
  const CandidateEvidence* chosen = candidate_with(evidence, plan.choice.candidate);
  if (!file.recorded || unbound == nullptr || chosen == nullptr || unbound->period_ns_median == 0) return "";
  const Comparison comparison = compared(evidence, plan.workload, unbound->id, chosen->id);
  const auto forecast = [&](const CandidateEvidence& candidate) {
    const auto checked = checked_period_ns(evidence, plan.workload, candidate.id);
    const Nanoseconds period_ns =
        comparison.basis != Basis::checked || !checked ? candidate.period_ns_median : *checked;
    return print_duration(std::llround(static_cast<double>(period_ns) / evidence.scale));
  };
  return format_text("recorded period {}; forecast unbound {}, under the plan {}. {}{}\n",
                     print_duration(file.recorded->period_ns), forecast(*unbound), forecast(*chosen),
                     comparison_in_words(comparison), ratio_in_words(comparison.longer));
}

}  // namespace zf
