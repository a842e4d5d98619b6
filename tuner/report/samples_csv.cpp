#include "report/samples_csv.hpp"

#include <cmath>
#include <map>
#include <string_view>

#include "base/format.hpp"
#include "base/text.hpp"
#include "plan/period.hpp"
#include "search/period_levels.hpp"

namespace zf {
namespace {

/// Returns a text in quotes, on one line.
std::string csv_field(std::string_view text) {
  std::string field = "\"";
  for (const char letter : one_line(text)) field += letter == '"' ? "\"\"" : std::string(1, letter);
  return field + "\"";
}

}  // namespace

std::string samples_csv(const Plan& plan) {
  std::map<int, std::string> labels;
  for (const CandidateEvidence& candidate : plan.evidence.candidates)
    labels[candidate.id] = csv_field(candidate.label);
  const Schedule schedule = schedule_of(plan.workload, plan.evidence.scale);
  std::string text =
      "candidate,split,round,checks,period_ns,step_ns,training_ns,roofline_ns,launch_delay_p50_ns,"
      "launch_delay_p99_ns,training_bytes\n";
  for (const Sample& sample : plan.evidence.samples) {
    const SplitSample& times = sample.times;
    text += format_text("{},{},{},{},{:.0f},{},{},{},{},{},{}\n", sample.candidate, labels[sample.candidate],
                        sample.round, came_after_choice(plan.evidence, sample) ? 1 : 0,
                        std::round(period_ns(times, schedule)), times.step_ns, times.training_ns,
                        times.roofline_ns, times.launch_delay_p50_ns, times.launch_delay_p99_ns,
                        times.training_bytes);
  }
  return text;
}

}  // namespace zf
