#include "report/explain.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/cpu_list.hpp"
#include "base/format.hpp"
#include "base/step_types.hpp"
#include "base/text.hpp"
#include "compare/statistics.hpp"
#include "report/comparisons.hpp"
#include "search/contest.hpp"
#include "search/headroom.hpp"
#include "search/period_levels.hpp"
#include "text/units.hpp"
#include "text/wrap.hpp"

namespace zf {
namespace {

/// A cell of a table in which nothing is to be said.
constexpr const char* kNone = "-";

std::string limits_in_words(const Allocation& allocation) {
  std::string text;
  if (allocation.cpu_quota)
    text += format_text(", a quota of {:.3g} CPU{}", *allocation.cpu_quota,
                        *allocation.cpu_quota == 1 ? "" : "s");
  if (allocation.shared_cpus) text += " on CPUs that neighbours share";
  if (allocation.memory_bytes)
    text += format_text(", a limit of {} of memory", print_bytes(*allocation.memory_bytes));
  return text;
}

std::string memory_in_words(const OptimizerSide& side) {
  return side.memory_policy == MemoryPolicy::none ? "any node" : "node " + print(side.mems);
}

std::string gpu_in_words(const RankBinding& rank) {
  if (!rank.gpu) return "-";
  const bool one_node = std::all_of(rank.more_gpus.begin(), rank.more_gpus.end(),
                                    [&](const RankGpu& gpu) { return gpu.node == rank.gpu->node; });
  return one_line(rank.gpu->pci_address) +
         (rank.more_gpus.empty() ? "" : format_text(" and {} more", rank.more_gpus.size())) +
         (rank.gpu->node && one_node ? format_text(", node {}", rank.gpu->node->os_index) : "");
}

/// Returns the figures of a comparison; kNone if nothing is known.
std::string figures_or_none(const Comparison& comparison) {
  if (!comparison.longer.is_known()) return kNone;
  return print_figures(comparison);
}

/// Returns what the visits after the choice say of a candidate: how it compares with the plan, or its period
/// if it is the plan, or if the plan had no such visits.
std::string checked_cell(const Plan& plan, const CandidateEvidence& candidate) {
  const auto period = checked_period_ns(plan.evidence, plan.workload, candidate.id);
  if (!period) return kNone;
  const bool is_plan = candidate.id == plan.choice.candidate;
  if (is_plan || count_periods(plan.evidence, plan.choice.candidate, VisitsOf::check) == 0)
    return print_duration(*period);
  const Comparison comparison = compared(plan.evidence, plan.workload, candidate.id, plan.choice.candidate);
  return comparison.basis == Basis::checked ? figures_or_none(comparison) : kNone;
}

/// Returns how many periods a row shows: "16", or "16 + 24" with those after the choice.
std::string samples_cell(const Plan& plan, const CandidateEvidence& candidate, std::size_t searched) {
  const std::size_t checked = count_periods(plan.evidence, candidate.id, VisitsOf::check);
  if (checked == 0 || !was_checked(plan)) return std::to_string(searched);
  return format_text("{} + {}", searched, checked);
}

std::string time_or_none(Nanoseconds ns) { return ns == 0 ? kNone : print_duration(ns); }

std::string times(double factor) {
  return factor >= kMostHeadroom ? format_text("more than {:.0f} times", kMostHeadroom)
                                 : format_text("{:.3g} times", factor);
}

/// Returns the CPUs of a pool, and the number of its threads where that is another one.
std::string optimizer_in_words(const OptimizerSide& side) {
  return side.threads
             ? format_text("{} on {}", print_count(static_cast<std::size_t>(*side.threads), "thread"),
                           print(side.cpus))
             : print(side.cpus);
}

}  // namespace

std::string headroom_in_words(const Headroom& headroom) {
  return format_text(
      "the plan costs less than 5 % against the best split that was measured until training is {} as fast, "
      "or "
      "the step {} as long.",
      times(headroom.training_speedup), times(headroom.step_slowdown));
}

double step_bytes_per_s(const Plan& plan, Nanoseconds step_ns) {
  const auto bytes =
      static_cast<double>(plan.evidence.elements_per_rank * measured_step_bytes(plan.intent.state_format));
  return bytes * static_cast<double>(plan.ranks.size()) / static_cast<double>(step_ns) *
         static_cast<double>(kSecondNs);
}

Table bindings_table(const Plan& plan) {
  using enum Table::Align;
  Table table({{"rank"},
               {"training CPUs", left},
               {"threads"},
               {"optimizer CPUs", left},
               {"memory", left},
               {"GPU", left},
               {"", left}});
  for (const RankBinding& rank : plan.ranks) {
    table.add({std::to_string(rank.rank), print(rank.training.cpus), std::to_string(rank.training.threads),
               optimizer_in_words(rank.optimizer), memory_in_words(rank.optimizer), gpu_in_words(rank),
               rank.shared ? "shared" : ""});
  }
  return table;
}

Table trial_table(const Trial& trial) {
  using enum Table::Align;
  Table table({{"", left},
               {"split", left},
               {"pool threads"},
               {"median"},
               {.title = "against the plan", .align = left},
               {"runs"},
               {"values"}});
  const auto winner = static_cast<std::size_t>(trial.winner);
  for (std::size_t i = 0; i < trial.candidates.size(); ++i) {
    const TrialCandidate& candidate = trial.candidates[i];
    std::size_t values = 0;
    for (const auto& run : candidate.runs) values += run.size();
    table.add({i == winner ? kChosenMark : "", candidate.label, std::to_string(candidate.pool_threads),
               format_text("{:.4g}", candidate.median),
               i == winner ? kNone : figures_or_none(compared(trial, i, winner)),
               std::to_string(candidate.runs.size()), std::to_string(values)});
  }
  return table;
}

std::string sign_in_words(const Plan& plan) {
  if (plan.trial) {
    return format_text("Against the plan: by how much {} differs, with its 95 % interval; {} is faster",
                       plan.trial->higher_is_better ? "the throughput" : "the time",
                       plan.trial->higher_is_better ? "plus" : "minus");
  }
  if (!was_checked(plan)) return "";
  if (count_periods(plan.evidence, plan.choice.candidate, VisitsOf::check) == 0)
    return "Checked after the choice: periods by visits of their own; the plan's split had no such visit";
  return "Checked after the choice, by visits of its own: the plan's period, and by how much others differ "
         "from it, with the 95 % interval; minus is faster";
}

Table evidence_table(const Plan& plan) {
  using enum Table::Align;
  using enum Table::Need;
  const bool checked = was_checked(plan);
  const bool has_own_step = plan.workload.step_factor.value_or(1) != 1;
  const Table::Need room = checked ? detail : essential;  // 80 columns have no room for both
  const auto searched = [&](const CandidateEvidence& one) {
    return count_periods(plan.evidence, one.id, VisitsOf::search);
  };
  using One = const CandidateEvidence&;
  const ColumnOf<CandidateEvidence> columns[] = {
      {{"", left}, [&](One one) { return one.id == plan.choice.candidate ? kChosenMark : ""; }},
      {{"split", left}, [](One one) { return one.label; }},
      {{"reserved", right, room}, [](One one) { return std::to_string(one.reserved_cores); }},
      {{"pool threads", right, room, "pool"}, [](One one) { return std::to_string(one.pool_threads); }},
      {{"period"}, [](One one) { return print_duration(one.period_ns_median); }},
      {{"spread", right, room}, [&](One one) { return print_spread(one.period_spread, searched(one)); }},
      {{kCheckedTitle, left, essential, "checked"},
       [&](One one) { return checked_cell(plan, one); },
       checked},
      {{"optimizer"}, [&](One one) { return print_duration(job_step_ns(one, plan.workload)); }},
      {{"training"}, [](One one) { return time_or_none(one.training_ns_median); }},
      {{"our step", right, detail}, [](One one) { return print_duration(one.step_ns_median); }, has_own_step},
      {{"exposed", right, detail}, [](One one) { return time_or_none(one.exposed_ns_median); }},
      {{"launch p99", right, detail}, [](One one) { return time_or_none(one.launch_delay_p99_ns); }},
      {{"GB/s", right, detail},
       [&](One one) { return format_text("{:.1f}", step_bytes_per_s(plan, one.step_ns_median) / 1e9); }},
      {{"of roofline", right, detail}, [](One one) { return format_text("{:.2f}", one.roofline_ratio); }},
      {{"samples", right, detail}, [&](One one) { return samples_cell(plan, one, searched(one)); }},
  };
  auto candidates = plan.evidence.candidates;
  std::sort(candidates.begin(), candidates.end(), [](const auto& a, const auto& b) {
    return std::tuple(a.pool_threads, a.label) < std::tuple(b.pool_threads, b.label);
  });
  return table_of<CandidateEvidence>(columns, candidates);
}

/// Says how much longer the job's own optimizer step takes than ours, which was measured.
std::string step_in_words(const Plan& plan) {
  const double factor = plan.workload.step_factor.value_or(1);
  return factor == 1 ? "" : format_text(", optimizer step {:.2f} times ours", factor);
}

std::vector<Fact> facts_of(const Plan& plan) {
  const MachineClass& machine = plan.machine;
  return {{"Machine",
           format_text("{}: {}, {} with CPUs, {}, {} ({})",
                       machine.model.empty() ? "unknown CPU" : one_line(machine.model),
                       print_count(machine.packages, "package"), print_count(machine.numa_nodes, "NUMA node"),
                       print_count(machine.cores, "core"), print_count(machine.pus, "PU"),
                       one_line(machine.fingerprint))},
          {"Allocation", format_text("{}, memory {}{}", print_cpus(plan.allocation.cpus),
                                     print_nodes(plan.allocation.mems), limits_in_words(plan.allocation))},
          {"Workload",
           format_text("{}: {} parameters on {}", one_line(plan.workload.name),
                       print_quantity(plan.workload.params), print_count(plan.workload.ranks, "rank"))},
          {"Job", format_text("mode {}, update interval {}, framework {}{}", name_of(plan.workload.mode),
                              plan.workload.update_interval, name_of(plan.workload.framework),
                              step_in_words(plan))}};
}

std::string measured_in_words(const Plan& plan) {
  const Evidence& evidence = plan.evidence;
  const bool simulated = evidence.isa == kSimulated;
  return format_text(
      "{} with all ranks at once, {} per rank{}; a split that is at most {:.1f} % slower than the "
      "fastest may be preferred to it",
      simulated ? "Simulated" : "Measured", print_bytes(evidence.working_set_bytes_per_rank),
      simulated ? "" : format_text(", {} kernels", one_line(evidence.isa)),
      100 * kLargestTie * evidence.accuracy_wanted);
}

std::string explain(const Plan& plan, std::size_t width) {
  const Provenance& made = plan.made;
  std::string text = hanging(
      "",
      format_text("A plan made by {} at {} on {}", one_line(made.by), one_line(made.at), one_line(made.host)),
      width);
  text += "\n";
  for (const Fact& fact : facts_of(plan)) text += hanging(format_text("{:<12}", fact.name), fact.text, width);
  text += format_text("\n{}\n", bindings_table(plan).print(width));
  if (!plan.evidence.candidates.empty()) {
    text += hanging("", measured_in_words(plan) + ":", width);
    text += evidence_table(plan).print(width);
    if (was_checked(plan)) text += hanging("  ", sign_in_words(plan) + ".", width);
    text += "\n";
  }
  if (plan.trial) {
    const std::string command = one_line(plan.trial->command);
    text += hanging("", format_text("Tried by the job itself ({}), which printed:", command), width);
    text += trial_table(*plan.trial).print(width);
    text += hanging("  ", sign_in_words(plan) + ".", width) + "\n";
  }
  std::string lead = "Why: ";
  for (const std::string& sentence : sentences(one_line(plan.choice.reason) + ".")) {
    text += hanging(lead, sentence, width);
    lead.assign(lead.size(), ' ');
  }
  if (plan.choice.headroom) text += hanging("Headroom: ", headroom_in_words(*plan.choice.headroom), width);
  for (const std::string& note : plan.allocation.notes)
    text += hanging("Note: ", one_line(note) + ".", width);
  for (const std::string& warning : plan.warnings)
    text += hanging("Warning: ", one_line(warning) + ".", width);
  return strip_control_chars(std::move(text));
}

}  // namespace zf
