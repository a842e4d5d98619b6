#include "report/recorded_words.hpp"

#include <cmath>

#include "base/format.hpp"
#include "search/decision.hpp"
#include "text/units.hpp"

namespace zf {
namespace {

const CandidateEvidence* candidate_with(const Evidence& evidence, int id) {
  for (const CandidateEvidence& candidate : evidence.candidates) {
    if (candidate.id == id) return &candidate;
  }
  return nullptr;
}

}  // namespace

std::string estimates_in_words(const WorkloadFile& file) {
  if (file.estimates.empty()) return "";
  std::string names;
  for (const std::string& name : file.estimates) names += (names.empty() ? "" : ", ") + name;
  return format_text("estimates, not measured: {}\n", names);
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

std::string forecast_in_words(const WorkloadFile& file, const Plan& plan) {
  const CandidateEvidence* unbound = control_of(plan.evidence, Control::unbound);
  const CandidateEvidence* chosen = candidate_with(plan.evidence, plan.choice.candidate);
  if (!file.recorded || unbound == nullptr || chosen == nullptr || unbound->period_ns_median == 0) return "";
  const Difference slower = period_difference(plan.evidence, plan.workload, unbound->id, chosen->id);
  const double unbound_ns = static_cast<double>(unbound->period_ns_median) / plan.evidence.scale;
  const std::string interval =
      slower.is_known() ? format_text("95 % confidence: {:.3f} to {:.3f}", 1 + slower.low, 1 + slower.high)
                        : "its confidence is unknown";
  return format_text(
      "recorded period {}; forecast unbound {}, under the plan {} ({:.3f} times unbound; {})\n",
      print_duration(file.recorded->period_ns), print_duration(std::llround(unbound_ns)),
      print_duration(std::llround(unbound_ns * (1 + slower.estimate))), 1 + slower.estimate, interval);
}

}  // namespace zf
