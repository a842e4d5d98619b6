#include "report/headline.hpp"

#include <algorithm>
#include <optional>

#include "base/format.hpp"
#include "base/text.hpp"
#include "compare/statistics.hpp"
#include "report/explain.hpp"
#include "search/comparisons.hpp"
#include "search/decision.hpp"
#include "search/period_levels.hpp"
#include "text/units.hpp"

namespace zf {
namespace {

const CandidateEvidence* chosen_of(const Plan& plan) {
  for (const CandidateEvidence& candidate : plan.evidence.candidates) {
    if (candidate.id == plan.choice.candidate) return &candidate;
  }
  return nullptr;
}

/// Returns "4 cores", or "4 to 5 cores" if the ranks differ.
template <class Count>
std::string range_of(const Plan& plan, Count count, std::string_view noun) {
  const auto [low, high] =
      std::minmax_element(plan.ranks.begin(), plan.ranks.end(),
                          [&](const RankBinding& a, const RankBinding& b) { return count(a) < count(b); });
  const int least = count(*low);
  const int most = count(*high);
  return least == most ? print_count(most, noun) : format_text("{} to {}", least, print_count(most, noun));
}

/// Returns "Training has all 8 cores of its home, and the optimizer runs 3 pinned threads on some of them".
std::string shared_home_in_words(const Plan& plan, bool one) {
  const auto cores = [](const RankBinding& rank) { return rank.home.threads; };
  const auto pool = [](const RankBinding& rank) { return static_cast<int>(rank.optimizer.cpus.size()); };
  const bool all = std::all_of(plan.ranks.begin(), plan.ranks.end(), [](const RankBinding& rank) {
    return rank.optimizer.cpus.size() >= static_cast<std::size_t>(rank.home.threads);
  });
  return format_text("Training has all {} of {} home, and the optimizer runs {} on {} of them",
                     range_of(plan, cores, "core"), one ? "its" : "each",
                     range_of(plan, pool, "pinned thread"), all ? "all" : "some");
}

std::string split_in_words(const Plan& plan) {
  const bool one = plan.ranks.size() == 1;
  const auto has_one_core = [](const RankBinding& rank) { return rank.shared && rank.home.threads == 1; };
  if (std::any_of(plan.ranks.begin(), plan.ranks.end(), has_one_core)) {
    return one ? "Training and the optimizer share the only core"
               : "Training and the optimizer share a core on ranks that have only one";
  }
  if (plan.ranks.front().shared) return shared_home_in_words(plan, one);
  const auto training = [](const RankBinding& rank) { return rank.pt_reserved_cores; };
  const auto pool = [](const RankBinding& rank) { return static_cast<int>(rank.optimizer.cpus.size()); };
  return format_text("Reserve {} {}for training and run the optimizer with {}",
                     range_of(plan, training, "core"), one ? "" : "of each rank ",
                     range_of(plan, pool, "pinned thread"));
}

/// Returns ", which is DeepSpeed's half and half", if that is so.
std::string control_in_words(const Plan& plan) {
  const CandidateEvidence* chosen = chosen_of(plan);
  const bool is_half = chosen != nullptr && chosen->control == Control::half;
  return is_half ? ", which is DeepSpeed's half and half" : "";
}

/// Says how unbound compares with the plan.
std::string unbound_in_words(const Plan& plan) {
  const auto unbound = control_beside_plan(plan, Control::unbound);
  return unbound ? comparison_in_words(*unbound) : "Unbound was not measured";
}

/// Returns how a control compares with the plan; nothing if either was not measured.
std::optional<KeyFigure> figure_against(const Plan& plan, Control control, std::string_view name) {
  const auto other = control_beside_plan(plan, control);
  if (!other) return std::nullopt;
  KeyFigure figure{format_text("{} against this plan", name), "not known", "too few measurements"};
  const auto verdict = verdict_of(*other);
  if (!verdict) return figure;
  figure.value = print_estimate(*other);
  figure.note = format_text("{} ({}; {} is faster){}", name_of(*verdict), print_interval(*other),
                            other->of_rates ? "plus" : "minus",
                            other->basis == Basis::checked ? "" : ", in the search, not after the choice");
  return figure;
}

}  // namespace

std::string headline_of(const Plan& plan) {
  const std::string split = split_in_words(plan);
  if (plan.choice.period_ns_median == 0) {
    return plan.trial ? format_text("{}. {}.", split, unbound_in_words(plan))
                      : split + "; nothing was measured.";
  }
  return format_text("{}: {} per period{}. {}.", split, print_duration(plan.choice.period_ns_median),
                     control_in_words(plan), unbound_in_words(plan));
}

std::vector<KeyFigure> figures_of(const Plan& plan) {
  const CandidateEvidence* chosen = chosen_of(plan);
  if (chosen == nullptr) return {};
  const std::size_t periods = count_periods(plan.evidence, chosen->id, VisitsOf::search);
  const auto spread = [&](double relative) { return "spread " + print_spread(relative, periods); };
  std::vector<KeyFigure> figures = {
      {"period", print_duration(chosen->period_ns_median), spread(chosen->period_spread)},
      {"optimizer step", print_duration(job_step_ns(*chosen, plan.workload)), spread(chosen->step_spread)}};
  if (chosen->training_ns_median > 0) {
    const int steps = plan.workload.update_interval;
    figures.push_back({print_count(steps, "training step"),
                       print_duration(steps * chosen->training_ns_median), spread(chosen->training_spread)});
    const bool waits = plan.workload.mode == Mode::wait;
    figures.push_back({"optimizer time exposed",
                       chosen->exposed_ns_median == 0 ? "none" : print_duration(chosen->exposed_ns_median),
                       waits                            ? "training waits for all of it"
                       : chosen->exposed_ns_median == 0 ? "all of it hides behind training"
                                                        : "more than training hides"});
  }
  if (plan.choice.headroom) {
    const auto& [speedup, slowdown] = *plan.choice.headroom;
    figures.push_back({"headroom", format_text("{:.3g} ×, {:.3g} ×", speedup, slowdown),
                       "faster training, longer step, until the plan costs 5 %"});
  }
  figures.push_back({"bandwidth",
                     format_text("{:.1f} GB/s", step_bytes_per_s(plan, chosen->step_ns_median) / 1e9),
                     format_text("{:.0f} % of the roofline", 100 * chosen->roofline_ratio)});
  for (const auto& [control, name] :
       {std::pair(Control::shared, "shared home"), std::pair(Control::half, "half and half"),
        std::pair(Control::eighty_twenty, "80/20"), std::pair(Control::unbound, "unbound")}) {
    if (auto figure = figure_against(plan, control, name)) figures.push_back(std::move(*figure));
  }
  return figures;
}

}  // namespace zf
