// Puts the decision of a plan in words, and how sure it is.
#include "report/page_parts.hpp"

#include <algorithm>
#include <functional>
#include <vector>

#include "base/format.hpp"
#include "base/text.hpp"
#include "report/comparisons.hpp"
#include "report/reasons.hpp"

namespace zf {
namespace {

int pool_of(const RankBinding& rank) { return pool_threads(rank.optimizer); }

/// Returns "4 cores", or "4 to 5 cores" if the ranks differ.
template <class Count>
std::string range_of(const Plan& plan, Count count, std::string_view noun) {
  const auto [low, high] = std::ranges::minmax_element(plan.ranks, {}, count);
  const int least = std::invoke(count, *low), most = std::invoke(count, *high);
  return least == most ? print_count(most, noun) : format_text("{} to {}", least, print_count(most, noun));
}

/// Returns "Training has all 8 cores of its home, and the optimizer runs 3 pinned threads on some of them".
std::string shared_home_in_words(const Plan& plan, bool one) {
  const auto cores = [](const RankBinding& rank) { return rank.home.threads; };
  const bool all = std::ranges::all_of(plan.ranks, [](const RankBinding& rank) {
    return rank.optimizer.cpus.size() >= static_cast<std::size_t>(rank.home.threads);
  });
  return format_text("Training has all {} of {} home, and the optimizer runs {} on {} of them",
                     range_of(plan, cores, "core"), one ? "its" : "each",
                     range_of(plan, pool_of, "pinned thread"), all ? "all" : "some");
}

/// Returns "Neighbours share the CPUs: run 4 threads for training and 4 threads for the optimizer, all on the
/// whole home". In mode wait the sides take turns.
std::string threads_in_words(const Plan& plan, bool one) {
  const auto training = [](const RankBinding& rank) { return rank.training.threads; };
  const std::string threads = range_of(plan, training, "thread"), pool = range_of(plan, pool_of, "thread");
  const char* const each = one ? "" : " of each rank";
  const char* const home = one ? "the whole home" : "its whole home";
  if (plan.workload.mode == Mode::wait && threads == pool) {
    return format_text(
        "Neighbours share the CPUs: training and the optimizer{} take turns with {}, all on {}", each,
        threads, home);
  }
  return format_text("Neighbours share the CPUs: run {}{} for training and {} for the optimizer, all on {}",
                     threads, each, pool, home);
}

std::string split_in_words(const Plan& plan) {
  const bool one = plan.ranks.size() == 1;
  if (plan.allocation.shared_cpus) return threads_in_words(plan, one);
  const auto has_one_core = [](const RankBinding& rank) { return rank.shared && rank.home.threads == 1; };
  if (std::ranges::any_of(plan.ranks, has_one_core)) {
    return one ? "Training and the optimizer share the only core"
               : "Training and the optimizer share a core on ranks that have only one";
  }
  if (plan.ranks.front().shared) return shared_home_in_words(plan, one);
  return format_text("Reserve {} {}for training and run the optimizer with {}",
                     range_of(plan, &RankBinding::pt_reserved_cores, "core"), one ? "" : "of each rank ",
                     range_of(plan, pool_of, "pinned thread"));
}

}  // namespace

std::string headline_of(const Plan& plan) {
  if (is_unbound_better(plan)) return "Run this job unbound: no plan can express what is best for it.";
  if (plan.choice.period_ns_median == 0 && !plan.trial)
    return split_in_words(plan) + "; nothing was measured.";
  const CandidateEvidence* const chosen = chosen_of(plan);
  const bool is_half = chosen != nullptr && chosen->control == Control::half;
  return split_in_words(plan) + (is_half ? ", which is DeepSpeed's half and half." : ".");
}

std::string certainty_of(const Plan& plan) {
  if (plan.choice.period_ns_median == 0 && !plan.trial) return "";
  const std::vector<OtherSplit> others = splits_beside_plan(plan);
  const char* const measured = plan.trial ? "tried" : "measured";
  if (others.empty()) return format_text("No other split was {}, not even unbound.", measured);
  const auto is_known = [](const OtherSplit& other) { return other.comparison.longer.is_known(); };
  if (std::ranges::none_of(others, is_known)) {
    return (plan.trial ? unknown_differences_in_words(*plan.trial)
                       : unknown_differences_in_words(plan.evidence)) +
           ".";
  }
  const auto unbound = control_beside_plan(plan, Control::unbound);
  return unbound ? comparison_in_words(*unbound) + "." : format_text("Unbound was not {}.", measured);
}

}  // namespace zf
