// Holds every sentence that is said of a plan against the table under which it stands, over many random
// plans.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>
#include <optional>
#include <regex>
#include <set>
#include <string>
#include <utility>

#include "base/format.hpp"
#include "claims.hpp"
#include "plan_truth.hpp"
#include "plot_rows.hpp"
#include "random_plan.hpp"
#include "report/explain.hpp"
#include "report/html.hpp"
#include "report/page_parts.hpp"
#include "report/recorded_words.hpp"
#include "report/report.hpp"
#include "text/units.hpp"
#include "text/wrap.hpp"

namespace zf {
namespace {

/// The table that a person sees, by label and title.
class Cells {
 public:
  explicit Cells(const Table& table) : table_(table) {}

  /// Returns the cell; nothing if there is no such column or row.
  std::optional<std::string> at(const std::string& label, std::string_view title) const {
    for (std::size_t column = 0; column < table_.columns().size(); ++column) {
      if (table_.columns()[column].title != title) continue;
      for (const auto& row : table_.rows()) {
        if (row[1] == label) return row[column];
      }
    }
    return std::nullopt;
  }

 private:
  Table table_;
};

/// What was seen in all plans, so that the test cannot pass because it saw nothing.
struct Seen {
  std::map<std::string, int> verdicts;  ///< with "in the search", if so
  std::map<Grounds, int> grounds;
  int unknown = 0;
  int trials = 0;
  int advised = 0;  ///< to run unbound
  int headrooms = 0;
  int contradicted = 0;  ///< periods of the search, by the visits after the choice
};

/// Holds what is said of one plan against its tables.
class Audit {
 public:
  Audit(const Plan& plan, Seen& seen)
      : plan_(plan), truth_(plan), evidence_(evidence_table(plan)), seen_(seen) {
    if (plan.trial) trial_.emplace(trial_table(*plan.trial));
  }

  void run() {
    // A reason ends without a full stop.
    for (const std::string& sentence : sentences(plan_.choice.reason + ".")) hold(without_stop(sentence));
    hold_periods();
    EXPECT_EQ(sentences(headline_of(plan_)).size(), 1U) << "one sentence has the decision";
    hold(without_stop(headline_of(plan_)));
    hold(without_stop(certainty_of(plan_)));
    hold_plot();
    hold_advice();
    if (!plan_.trial) hold_forecast();
    if (!plan_.trial) hold_headroom();
    hold_cells();
    EXPECT_THAT(plan_.choice.reason, testing::ContainsRegex("[uU]nbound"));
  }

 private:
  static std::string without_stop(std::string sentence) {
    if (!sentence.empty() && sentence.back() == '.') sentence.pop_back();
    return sentence;
  }

  void hold(const std::string& sentence) {
    SCOPED_TRACE(sentence);
    if (sentence.find("not known") != std::string::npos) ++seen_.unknown;
    const auto claim = claim_in(sentence);
    if (claim) return hold(*claim);
    EXPECT_TRUE(!compares(sentence) || may_compare(sentence)) << "it compares without figures";
  }

  void hold(const Claim& claim) {
    ++seen_.verdicts[claim.verdict + (claim.in_search ? ", in the search" : "")];
    const bool of_rates = truth_.by_trial() && plan_.trial->higher_is_better;
    EXPECT_EQ(claim.sign, of_rates ? "plus" : "minus");
    EXPECT_FALSE(compares(claim.rest)) << claim.rest;
    const std::string base = claim.base == "this plan" ? truth_.chosen() : claim.base;
    EXPECT_NE(claim.name, base);
    // The verdict is that of the printed figures.
    const double accuracy = 100 * (truth_.by_trial() ? 0.02 : plan_.evidence.accuracy_wanted) + 1e-9;
    const char* expected = claim.high < 0  ? (of_rates ? "slower" : "faster")
                           : claim.low > 0 ? (of_rates ? "faster" : "slower")
                           : claim.low >= -accuracy && claim.high <= accuracy ? "a tie"
                                                                              : "unclear";
    EXPECT_EQ(claim.verdict, expected);
    EXPECT_LE(claim.low, claim.estimate);
    EXPECT_LE(claim.estimate, claim.high);
    // The figures are those of the visits after the choice, and only without an interval there of the search.
    const Difference difference = truth_.difference(claim.name, base, !claim.in_search);
    ASSERT_TRUE(difference.is_known()) << "a figure without an interval";
    EXPECT_EQ(claim.figures, figures_for(difference, of_rates));
    if (claim.in_search) {
      EXPECT_FALSE(truth_.difference(claim.name, base, true).is_known());
    }
    // A pair has one figure, and the table has it too.
    const auto known = pairs_.emplace(std::pair(claim.name, base), claim.figures);
    EXPECT_EQ(known.first->second, claim.figures);
    EXPECT_FALSE(pairs_.contains({base, claim.name})) << "the pair has another figure the other way round";
    if (claim.base != "this plan") return;
    if (truth_.by_trial()) {
      EXPECT_EQ(trial_->at(claim.name, "against the plan"), claim.figures);
    } else if (claim.in_search) {
      // Where the plan itself was not checked, the column has periods alone.
      const bool has_plan = truth_.count(truth_.chosen(), true) > 0;
      const std::string cell = evidence_.at(claim.name, kCheckedTitle).value_or("-");
      EXPECT_TRUE(has_plan ? cell == "-" : cell.find('%') == std::string::npos) << cell;
      const double ratio = period_of_row(claim.name) / period_of_row(base) - 1;
      EXPECT_NEAR(100 * ratio, claim.estimate, 0.06 * (2 + ratio)) << "the column of periods";
    } else {
      EXPECT_EQ(evidence_.at(claim.name, kCheckedTitle), claim.figures);
    }
  }

  double period_of_row(const std::string& label) const {
    for (const CandidateEvidence& candidate : plan_.evidence.candidates) {
      if (candidate.label == label) return static_cast<double>(candidate.period_ns_median);
    }
    return 0;
  }

  /// Times in the reason are those of the table.
  void hold_periods() {
    if (plan_.trial) return;
    const std::string time = "([0-9.]+ (?:s|ms|us))";
    const std::regex period("(?:in the search, |[Tt]akes )" + time + "( by the visits after the choice)?");
    std::smatch match;
    ASSERT_TRUE(std::regex_search(plan_.choice.reason, match, period));
    const bool by_check = match[2].matched;
    EXPECT_FALSE(std::regex_search(match.suffix().str(), period)) << "the reason has one period, the plan's";
    EXPECT_EQ(evidence_.at(truth_.chosen(), by_check ? kCheckedTitle : "period"), match[1].str());
    const double searched = truth_.period_ns(truth_.chosen(), false);
    const double checked = truth_.period_ns(truth_.chosen(), true);
    const double apart = std::isfinite(checked) ? std::abs(checked / searched - 1) : 0;
    const double counts = 2.5 * plan_.evidence.accuracy_wanted;
    if (std::abs(apart - counts) > 1e-6) {
      EXPECT_EQ(by_check, apart > counts) << "a period that the check contradicts";
    }
    seen_.contradicted += by_check ? 1 : 0;
    hold_sides(time, by_check);
  }

  /// The sides that the reason names are those of the row; where it quotes the check, they are of that.
  void hold_sides(const std::string& time, bool by_check) {
    const std::pair<const char*, std::string> of_plan[] = {{"optimizer", "The optimizer's step of " + time},
                                                           {"training", "training steps? of " + time},
                                                           {"exposed", ": " + time + " of it are exposed"}};
    std::smatch match;
    for (const auto& [title, words] : of_plan) {
      if (!std::regex_search(plan_.choice.reason, match, std::regex(words))) continue;
      if (!by_check) {
        EXPECT_EQ(evidence_.at(truth_.chosen(), title), match[1].str()) << words;
      }
    }
    const std::regex both("The optimizer's step of " + time + ".* of " + time);
    if (!by_check || !std::regex_search(plan_.choice.reason, match, both)) return;
    const Schedule schedule = schedule_of(plan_.workload, plan_.evidence.scale);
    const auto [step, step_off] = nanoseconds_in(match[1]);
    const auto [training, training_off] = nanoseconds_in(match[2]);
    EXPECT_NEAR(period_of(training, step / schedule.step_factor, schedule),
                truth_.period_ns(truth_.chosen(), true), step_off + schedule.update_interval * training_off);
  }

  /// Returns a printed time, and by how much it may be off because it was rounded.
  static std::pair<double, double> nanoseconds_in(const std::string& printed) {
    const double unit = printed.ends_with(" us") ? 1e3 : printed.ends_with(" ms") ? 1e6 : 1e9;
    return {unit * std::stod(printed), unit * (unit == 1e9 ? 0.00501 : 0.0501)};
  }

  /// The columns of a row make its period by the formula of the mode, and their ratio is between those of the
  /// visits.
  void hold_row(const CandidateEvidence& candidate) {
    SCOPED_TRACE(candidate.label);
    if (candidate.period_ns_median == 0) return;
    const Schedule schedule = schedule_of(plan_.workload, plan_.evidence.scale);
    const auto step = static_cast<double>(candidate.step_ns_median);
    const auto training = static_cast<double>(candidate.training_ns_median);
    const auto period = static_cast<double>(candidate.period_ns_median);
    const double rounding = 1 + schedule.update_interval + schedule.step_factor;  // nanoseconds
    EXPECT_NEAR(truth_.period_ns(candidate.label, false), period, 1);
    EXPECT_NEAR(period_of(training, step, schedule), period, rounding);
    EXPECT_NEAR(static_cast<double>(candidate.exposed_ns_median), exposed_of(training, step, schedule),
                rounding);
    EXPECT_EQ(evidence_.at(candidate.label, "period"), print_duration(candidate.period_ns_median));
    EXPECT_EQ(evidence_.at(candidate.label, "optimizer"),
              print_duration(std::llround(schedule.step_factor * step)));
    if (training == 0) return;
    EXPECT_EQ(evidence_.at(candidate.label, "training"), print_duration(candidate.training_ns_median));
    const auto [low, high] = truth_.step_by_training(candidate.label, false);
    EXPECT_GE(step / training, low * (1 - 2 / step - 2 / training));
    EXPECT_LE(step / training, high * (1 + 2 / step + 2 / training));
  }

  /// Every row says what the sentence of its pair says, and draws it. Every difference that is known has a
  /// row.
  void hold_plot() {
    const std::string plot = verdict_plot(plan_);
    std::set<std::string> drawn;
    for (const PlotRow& row : rows_in(plot)) {
      SCOPED_TRACE(row.label);
      drawn.insert(row.label);
      hold(row.sentence);
      const auto claim = claim_in(row.sentence);
      ASSERT_TRUE(claim) << row.sentence;
      EXPECT_EQ(claim->name, row.label);
      EXPECT_EQ(claim->base, "this plan");
      EXPECT_EQ(claim->figures, row.figures);
      EXPECT_EQ(row.verdict, claim->verdict + (claim->in_search ? ", in the search" : ""));
      EXPECT_EQ(row.kind.ends_with(" searched"), claim->in_search);
      const double reach = reach_of(plot);
      const double off = 48 * 0.06 / reach;  // figures are rounded
      EXPECT_NEAR(row.low, 50 + 48 * std::clamp(claim->low / reach, -1.0, 1.0), off);
      EXPECT_NEAR(row.high, 50 + 48 * std::clamp(claim->high / reach, -1.0, 1.0), off);
    }
    EXPECT_EQ(drawn, known_splits());
  }

  /// Returns the other splits that the samples compare with the plan's.
  std::set<std::string> known_splits() const {
    std::set<std::string> labels;
    const auto add = [&](const std::string& label) {
      if (label == truth_.chosen()) return;
      if (truth_.difference(label, truth_.chosen(), true).is_known() ||
          truth_.difference(label, truth_.chosen(), false).is_known())
        labels.insert(label);
    };
    if (plan_.trial) {
      for (const TrialCandidate& candidate : plan_.trial->candidates) add(candidate.label);
    } else {
      for (const CandidateEvidence& candidate : plan_.evidence.candidates) add(candidate.label);
    }
    return labels;
  }

  /// The headline advises to run unbound where the reason does.
  void hold_advice() {
    const bool advised = plan_.trial ? plan_.choice.reason.find("run this job unbound") != std::string::npos
                                     : decide(contest_of(plan_.evidence, plan_.workload)).unbound_is_better;
    seen_.advised += advised ? 1 : 0;
    EXPECT_EQ(headline_of(plan_).starts_with("Run this job unbound"), advised);
  }

  void hold_forecast() {
    WorkloadFile file;
    file.recorded = Recorded{};
    file.recorded->period_ns = 100'000'000;
    std::string words = forecast_in_words(file, plan_);
    if (words.empty()) return;
    words.pop_back();  // the end of the line
    const auto all = sentences(words);
    ASSERT_GE(all.size(), 2U) << words;
    hold(all[1]);
    const auto claim = claim_in(all[1]);
    ASSERT_EQ(all.size(), claim ? 3U : 2U) << "a ratio without an interval: " << words;
    if (!claim) return;
    const Difference longer = truth_.difference("unbound", truth_.chosen(), !claim->in_search);
    const double ratio = 1 / (1 + longer.estimate);
    const auto limit = [&](double measured) {
      const double half_width = std::hypot(std::log(ratio * (1 + measured)), kForecastError);
      return ratio * std::exp(measured > longer.estimate ? -half_width : half_width);
    };
    EXPECT_EQ(all[2], format_text("For the job itself expect plan / unbound {:.3f} ({:.3f} to {:.3f})", ratio,
                                  limit(longer.high), limit(longer.low)));
    std::smatch match;
    ASSERT_TRUE(std::regex_search(all[0], match, std::regex("under the plan (.*)[.]")));
    if (!claim->in_search && plan_.evidence.scale == 1) {
      EXPECT_EQ(match[1], evidence_.at(truth_.chosen(), kCheckedTitle));
    }
  }

  /// Headroom is said only if the noise does not hide 5 %. Up to its factors no split that is as fast as its
  /// interval allows is 5 % better; a little further one is.
  void hold_headroom() {
    const auto& headroom = plan_.choice.headroom;
    if (!headroom) return;
    ++seen_.headrooms;
    EXPECT_LE(plan_.evidence.noise_floor, 0.05);
    const auto holds = [](double factor, const auto& loss) {
      EXPECT_LE(loss(factor), 0.05 + 1e-9);
      if (factor < 16) {
        EXPECT_GT(loss(factor * 1.0101), 0.05);
      }
    };
    holds(headroom->training_speedup, [&](double factor) { return loss_if(1 / factor, 1); });
    holds(headroom->step_slowdown, [&](double factor) { return loss_if(1, factor); });
  }

  /// Returns how much longer the plan's period may be than another split's, at the limits of their intervals.
  double loss_if(double training, double step) const {
    const Schedule schedule = schedule_of(plan_.workload, plan_.evidence.scale);
    const auto period = [&](const CandidateEvidence& row) {
      return period_of(training * static_cast<double>(row.training_ns_median),
                       step * static_cast<double>(row.step_ns_median), schedule);
    };
    double mine = 0;
    double best = std::numeric_limits<double>::infinity();
    for (const CandidateEvidence& row : plan_.evidence.candidates) {
      if (row.label == truth_.chosen()) {
        mine = period(row);
      } else if (row.control != Control::unbound && row.period_ns_median != 0) {
        const Difference longer = truth_.difference(row.label, truth_.chosen(), false);
        EXPECT_TRUE(longer.is_known()) << row.label;
        best = std::min(best, period(row) * (1 + longer.low) / (1 + longer.estimate));
      }
    }
    return mine / best - 1;
  }

  /// Every cell says what the samples say.
  void hold_cells() {
    for (const CandidateEvidence& candidate : plan_.evidence.candidates) {
      hold_row(candidate);
      const std::size_t searched = truth_.count(candidate.label, false);
      const std::size_t checked = truth_.count(candidate.label, true);
      EXPECT_EQ(evidence_.at(candidate.label, "spread") == "-", searched < 4) << searched;
      EXPECT_EQ(evidence_.at(candidate.label, "samples"), checked == 0 || plan_.trial
                                                              ? std::to_string(searched)
                                                              : format_text("{} + {}", searched, checked));
      if (plan_.trial) {
        EXPECT_EQ(evidence_.at(candidate.label, kCheckedTitle), std::nullopt);
      }
    }
  }

  const Plan& plan_;
  PlanTruth truth_;
  Cells evidence_;
  std::optional<Cells> trial_;
  Seen& seen_;
  std::map<std::pair<std::string, std::string>, std::string> pairs_;  ///< figures by split and base
};

/// Returns how many plans to make: ZF_PLANS, or a few.
unsigned plans_to_make() {
  const char* const given = std::getenv("ZF_PLANS");
  return given != nullptr ? static_cast<unsigned>(std::atoi(given)) : 1500U / ZF_FEWER;
}

/// Explanation and page show the same words as were held.
void expect_shown(const Plan& plan) {
  const std::string text = explain(plan);
  for (const std::string& sentence : sentences(plan.choice.reason))
    EXPECT_THAT(text, testing::HasSubstr(sentence));
  const std::string page = report_of(plan, nullptr);
  EXPECT_THAT(page, testing::HasSubstr(html_text(plan.choice.reason)));
  EXPECT_THAT(page, testing::HasSubstr(html_text(headline_of(plan))));
  EXPECT_THAT(page, testing::HasSubstr(html_text(certainty_of(plan))));
  EXPECT_THAT(page, testing::HasSubstr(verdict_plot(plan)));
  const Table table = evidence_table(plan);
  for (const auto& row : table.rows()) {
    for (std::size_t i = 1; i < row.size(); ++i) {
      EXPECT_THAT(text, testing::HasSubstr(row[i]));
      EXPECT_THAT(page, testing::HasSubstr(html_text(row[i])));
    }
  }
}

TEST(Sentences, AgreeWithTheTablesUnderWhichTheyStand) {
  const unsigned plans = plans_to_make();
  Seen seen;
  for (unsigned seed = 0; seed < plans && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    const Plan plan = RandomPlan(seed).make();
    SCOPED_TRACE(plan.choice.reason);
    seen.trials += plan.trial ? 1 : 0;
    if (!plan.trial) ++seen.grounds[decide(contest_of(plan.evidence, plan.workload)).grounds];
    Audit(plan, seen).run();
    if (seed % 100 == 0) expect_shown(plan);
  }
  if (plans < 1000) return;
  for (const char* const verdict : {"faster", "slower", "a tie", "unclear"}) {
    EXPECT_GT(seen.verdicts[verdict], 0) << verdict;
    EXPECT_GT(seen.verdicts[std::string(verdict) + ", in the search"], 0) << verdict;
  }
  for (const Grounds grounds : {Grounds::fastest, Grounds::safer, Grounds::not_shown, Grounds::corrected})
    EXPECT_GT(seen.grounds[grounds], 0) << static_cast<int>(grounds);
  EXPECT_GT(seen.unknown, 0);
  EXPECT_GT(seen.trials, 0);
  EXPECT_GT(seen.advised, 0);
  EXPECT_GT(seen.contradicted, 0);
  EXPECT_GT(seen.headrooms, 0);
}

}  // namespace
}  // namespace zf
