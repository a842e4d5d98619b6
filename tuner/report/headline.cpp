#include "report/headline.hpp"

#include <algorithm>
#include <vector>

#include "base/format.hpp"
#include "base/text.hpp"
#include "report/comparison_words.hpp"
#include "report/comparisons.hpp"

namespace zf {
namespace {

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
  const auto pool = [](const RankBinding& rank) { return pool_threads(rank.optimizer); };
  const bool all = std::all_of(plan.ranks.begin(), plan.ranks.end(), [](const RankBinding& rank) {
    return rank.optimizer.cpus.size() >= static_cast<std::size_t>(rank.home.threads);
  });
  return format_text("Training has all {} of {} home, and the optimizer runs {} on {} of them",
                     range_of(plan, cores, "core"), one ? "its" : "each",
                     range_of(plan, pool, "pinned thread"), all ? "all" : "some");
}

/// Returns "Neighbours share the CPUs: run 4 threads for training and 4 threads for the optimizer, all on the
/// whole home". In mode wait the sides take turns.
std::string threads_in_words(const Plan& plan, bool one) {
  const auto training = [](const RankBinding& rank) { return rank.training.threads; };
  const auto pool = [](const RankBinding& rank) { return pool_threads(rank.optimizer); };
  const std::string threads = range_of(plan, training, "thread");
  const char* const each = one ? "" : " of each rank";
  const char* const home = one ? "the whole home" : "its whole home";
  if (plan.workload.mode == Mode::wait && threads == range_of(plan, pool, "thread")) {
    return format_text(
        "Neighbours share the CPUs: training and the optimizer{} take turns with {}, all on {}", each,
        threads, home);
  }
  return format_text("Neighbours share the CPUs: run {}{} for training and {} for the optimizer, all on {}",
                     threads, each, range_of(plan, pool, "thread"), home);
}

std::string split_in_words(const Plan& plan) {
  const bool one = plan.ranks.size() == 1;
  if (plan.allocation.shared_cpus) return threads_in_words(plan, one);
  const auto has_one_core = [](const RankBinding& rank) { return rank.shared && rank.home.threads == 1; };
  if (std::any_of(plan.ranks.begin(), plan.ranks.end(), has_one_core)) {
    return one ? "Training and the optimizer share the only core"
               : "Training and the optimizer share a core on ranks that have only one";
  }
  if (plan.ranks.front().shared) return shared_home_in_words(plan, one);
  const auto training = [](const RankBinding& rank) { return rank.pt_reserved_cores; };
  const auto pool = [](const RankBinding& rank) { return pool_threads(rank.optimizer); };
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

/// Returns whether the difference of any other split to the plan is known.
bool is_any_known(const std::vector<OtherSplit>& others) {
  return std::any_of(others.begin(), others.end(),
                     [](const OtherSplit& other) { return other.comparison.longer.is_known(); });
}

}  // namespace

std::string headline_of(const Plan& plan) {
  if (is_unbound_better(plan)) return "Run this job unbound: no plan can express what is best for it.";
  const bool is_measured = plan.choice.period_ns_median != 0 || plan.trial;
  return split_in_words(plan) + (is_measured ? control_in_words(plan) : "; nothing was measured") + ".";
}

std::string certainty_of(const Plan& plan) {
  if (plan.choice.period_ns_median == 0 && !plan.trial) return "";
  const std::vector<OtherSplit> others = splits_beside_plan(plan);
  const char* const measured = plan.trial ? "tried" : "measured";
  if (others.empty()) return format_text("No other split was {}, not even unbound.", measured);
  if (!is_any_known(others)) {
    return (plan.trial ? unknown_differences_in_words(*plan.trial)
                       : unknown_differences_in_words(plan.evidence)) +
           ".";
  }
  const auto unbound = control_beside_plan(plan, Control::unbound);
  return unbound ? comparison_in_words(*unbound) + "." : format_text("Unbound was not {}.", measured);
}

}  // namespace zf
