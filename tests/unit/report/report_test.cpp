#include "report/report.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "../plan/make_plan.hpp"
#include "../topology/make_topology.hpp"
#include "plot_rows.hpp"
#include "report/explain.hpp"
#include "report/html.hpp"
#include "report/page_parts.hpp"
#include "report/samples_csv.hpp"
#include "report/sides.hpp"
#include "report/time_axis.hpp"

namespace zf {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

std::size_t count_of(std::string_view text, std::string_view part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string_view::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

Plan unmeasured() {
  Plan plan = make_plan();
  plan.evidence = {};
  plan.trial.reset();
  plan.choice = {"nothing was measured", -1, 0, 5};
  return plan;
}

Plan one_core() {
  Plan plan = unmeasured();
  plan.machine.cpus = plan.allocation.cpus = parse_cpu_list("0", "test");
  plan.ranks = {make_rank(0, "0", "0", "0")};
  plan.ranks[0].shared = true;
  plan.ranks[0].home.threads = 1;
  plan.ranks[0].pt_reserved_cores = 0;
  return plan;
}

void add_samples(Plan& plan, int id, Nanoseconds period, int count, int first_round = 0) {
  for (int i = 0; i < count; ++i) {
    // One visit each in as many rounds, which differ by a thousandth.
    const Nanoseconds here = period + period * (i % 2) * (id + 1) / 1000;
    plan.evidence.samples.push_back({id, first_round + i, {here, here, here / 8, 1000, 2000, 1}});
  }
}

/// Returns a measured plan that no job has tried.
Plan untried_plan() {
  Plan plan = make_plan();
  plan.trial.reset();
  return plan;
}

/// Adds a candidate and one sample of it.
CandidateEvidence& add_candidate(Plan& plan, int id, int reserved, int pool, Nanoseconds period) {
  CandidateEvidence& candidate = plan.evidence.candidates.emplace_back();
  candidate.id = id;
  candidate.label = "made " + std::to_string(id);
  candidate.reserved_cores = reserved;
  candidate.pool_cores = candidate.pool_threads = pool;
  candidate.period_ns_median = candidate.step_ns_median = period;
  add_samples(plan, id, period, 1);
  return candidate;
}

/// Returns a plan. Its splits, with unbound among them, were visited often enough to know their differences.
Plan compared_plan() {
  Plan plan = untried_plan();
  CandidateEvidence& unbound = add_candidate(plan, 2, 0, 16, 220000000);
  unbound.control = Control::unbound;
  unbound.label = "unbound";
  for (const auto& [id, period] : {std::pair(0, 900000000), std::pair(1, 201000000), std::pair(2, 220000000)})
    add_samples(plan, id, period, 8, 1);
  return plan;
}

TEST(Report, LeadsWithTheDecisionThenTheMachineThenTheEvidence) {
  const Topology topology = make_topology({.packages = 2, .cores_per_l3 = 24});
  Plan plan = compared_plan();
  plan.trial = make_plan().trial;
  plan.trial->candidates[1].runs.push_back({100.5});
  const std::string page = report_of(plan, &topology);
  EXPECT_TRUE(page.starts_with("<!DOCTYPE html>"));
  std::size_t last = 0;
  for (const char* const part :
       {"CPU plan for node17", "<h1>Reserve 11 cores", "Against this plan, unbound is slower: +19.",
        "id=\"verdicts\"", "What to type", "5 cores saturate the memory", "id=\"machine\"", "id=\"sides\"",
        "id=\"candidates\"", "id=\"trial\"", "id=\"homes\"", "zf-tune tune --ranks 2"}) {
    const std::size_t at = page.find(part);
    ASSERT_NE(at, std::string::npos) << part;
    EXPECT_GT(at, last) << part;
    last = at;
  }
  EXPECT_THAT(page, HasSubstr("Warning: I/O discovery took over 3 s: no GPUs."));
}

TEST(Report, NeedsNothingButItself) {
  const std::string page = report_of(make_plan(), nullptr);
  EXPECT_THAT(page, HasSubstr("content=\"default-src 'none';"));
  for (const char* const loads : {" src=", " href=", "<link", "@import", "url(", "<script", "javascript"}) {
    EXPECT_THAT(page, Not(HasSubstr(loads)));
  }
}

/// Returns the page of a plan and a machine that say this wherever they can.
std::string page_that_says(const std::string& evil) {
  Plan plan = make_plan();
  plan.made = {evil, evil, evil, evil};
  plan.machine.model = plan.choice.reason = plan.workload.name = plan.evidence.isa = evil;
  plan.warnings = {evil};
  for (CandidateEvidence& candidate : plan.evidence.candidates) candidate.label = evil;
  plan.trial->command = plan.trial->metric = evil;
  for (TrialCandidate& candidate : plan.trial->candidates) candidate.label = evil;
  Topology topology = make_topology({.packages = 2, .cores_per_l3 = 24});
  topology.cpu_kinds = {{parse_cpu_list("0-23", "test"), 0, evil},
                        {parse_cpu_list("24-47", "test"), 1, evil}};
  topology.gpus = {{"0000:3b:00.0", evil, {}, Node{0}}, {"0000:3c:00.0", evil, {}, {}}};
  topology.nodes[1].cpus = {};
  topology.nodes[1].subtype = evil;

  return report_of(plan, &topology);
}

TEST(Report, CoresThatAreFastTodayAreDrawnWithTheReason) {
  const Plan plan = make_plan();
  Topology topology = make_topology({.packages = 2, .cores_per_l3 = 24});
  for (std::size_t core = 24; core < 48; ++core) topology.cores[core].kind = 1;
  topology.cpu_kinds.resize(2);
  topology.cpu_kinds[1].today = "fast today: base_frequency 3.20 GHz";
  const std::string page = report_of(plan, &topology);
  EXPECT_THAT(page, HasSubstr("<span class=\"kind\">fast today: base_frequency 3.20 GHz</span>"));
  EXPECT_EQ(count_of(page, "<span class=\"kind\">"), 1U) << "nothing is known of the other cores";
}

TEST(Report, WhateverAPlanSaysDoesNotDriveATerminal) {
  const std::string page = page_that_says("a\x1b[31m\x7f\u009b\u202e\u2028\xff");
  for (const char* const control : {"\x1b", "\x7f", "\u009b", "\u202e", "\u2028"}) {
    EXPECT_EQ(count_of(page, control), 0U) << control;
  }
}

TEST(Report, WhateverAPlanSaysIsCut) {
  const std::size_t megabyte = 1 << 20;
  const std::string page = page_that_says(std::string(megabyte, 'x'));
  EXPECT_LT(page.size(), page_that_says("x").size() + megabyte);
  EXPECT_THAT(page, HasSubstr("xxx..."));
}

TEST(Report, WhateverAPlanSaysIsNoMarkup) {
  const std::string page = page_that_says("</script></style><img src=x onerror=alert(1)>\"'&");
  EXPECT_EQ(count_of(page, "<img"), 0U);
  EXPECT_EQ(count_of(page, "</style>"), 1U);
  EXPECT_EQ(count_of(page, "<script"), 0U);
  EXPECT_EQ(count_of(page, "</script>"), 0U);
  EXPECT_THAT(page, HasSubstr("&lt;/script&gt;"));
}

TEST(Report, WhatWasNotMeasuredIsSaidAndNotDrawn) {
  const std::string page = report_of(unmeasured(), nullptr);
  EXPECT_THAT(page, HasSubstr("Nothing was measured."));
  for (const char* const absent :
       {"id=\"verdicts\"", "class=\"chart\"", "id=\"candidates\"", "id=\"trial\""}) {
    EXPECT_THAT(page, Not(HasSubstr(absent)));
  }
}

TEST(Report, ACandidateWithoutSamplesIsLeftOut) {
  Plan plan = make_plan();
  plan.evidence.candidates.emplace_back().id = 7;
  plan.evidence.candidates.back().label = "never visited";
  EXPECT_THAT(report_of(plan, nullptr), Not(HasSubstr("never visited")));
}

TEST(Report, SimulatedIsSaidFirst) {
  Plan plan = make_plan();
  EXPECT_THAT(report_of(plan, nullptr), Not(HasSubstr("Simulated")));
  plan.evidence.isa = kSimulated;
  const std::string page = report_of(plan, nullptr);
  EXPECT_THAT(page, HasSubstr("<b>CPU plan for Test CPU, simulated</b>"));
  EXPECT_LT(page.find("Simulated: no figure on this page was measured"), page.find("<h1>"));
}

TEST(Report, FiguresOfOtherHomesAreCalledSoWhereTheyStand) {
  // The plan was fitted to other CPUs. Only a warning below said so.
  Plan plan = compared_plan();
  const std::string note = "These figures are of other homes: 0-23 | 24-47.";
  EXPECT_THAT(report_of(plan, nullptr), Not(HasSubstr(note)));
  plan.warnings = {"the measurements were made on other homes: 0-23 | 24-47"};
  const std::string page = report_of(plan, nullptr);
  for (const auto& [begin, end] :
       {std::pair("<section id=\"decision\">", "<div id=\"next\">"),
        std::pair("<section id=\"sides\">", "</section>"), std::pair("<div id=\"candidates\">", "</div>")}) {
    const std::size_t at = page.find(begin);
    ASSERT_NE(at, std::string::npos) << begin;
    EXPECT_THAT(page.substr(at, page.find(end, at) - at), HasSubstr(note)) << begin;
  }
}

TEST(Report, SaysWhyTheseCoresWhereTheMachineIsKnown) {
  const Topology topology = make_topology({.packages = 2, .cores_per_l3 = 24});
  EXPECT_THAT(report_of(make_plan(), &topology),
              HasSubstr("Each home is compared with the best one of its size"));
  EXPECT_THAT(report_of(make_plan(), nullptr), Not(HasSubstr("Why these cores")));
}

TEST(Report, AwayFromTheMachineItSaysThatNodesAreNotKnown) {
  const Topology topology = make_topology({.packages = 2, .cores_per_l3 = 24});
  EXPECT_THAT(report_of(make_plan(), nullptr),
              AllOf(HasSubstr("not known here"), Not(HasSubstr("NUMA node 0,"))));
  EXPECT_THAT(report_of(make_plan(), &topology),
              AllOf(Not(HasSubstr("not known here")), HasSubstr("NUMA node 0,")));
}

TEST(Report, SharedCpusAreCalledSoInWordsTableAndDrawing) {
  Plan plan = unmeasured();
  plan.allocation.shared_cpus = true;
  for (RankBinding& rank : plan.ranks) {
    rank.home = {plan.allocation.cpus, 8};
    rank.training = {plan.allocation.cpus, 5};
    rank.optimizer.cpus = plan.allocation.cpus;
    rank.optimizer.threads = 3;
  }
  plan.workload.mode = Mode::overlap;
  EXPECT_EQ(
      headline_of(plan),
      "Neighbours share the CPUs: run 5 threads of each rank for training and 3 threads for the optimizer, "
      "all on its whole home; nothing was measured.");
  plan.workload.mode = Mode::wait;
  for (RankBinding& rank : plan.ranks) rank.optimizer.threads = 5;
  EXPECT_THAT(headline_of(plan), HasSubstr("take turns with 5 threads"));
  EXPECT_THAT(bindings_table(plan).print(), HasSubstr("5 threads on 0,4-11,21-26,30-46"));
  const std::string drawing = machine_drawing(plan, bare_topology(plan));
  EXPECT_THAT(drawing, HasSubstr("all ranks with this home, and neighbours"));
  EXPECT_THAT(drawing, Not(HasSubstr("rank 0, training")));
}

TEST(Decision, SaysWhoGetsWhat) {
  Plan plan = make_plan();
  EXPECT_EQ(headline_of(unmeasured()),
            "Reserve 11 cores of each rank for training and run the optimizer with 5 pinned threads; "
            "nothing was measured.");
  Plan tried = unmeasured();
  tried.trial = plan.trial;
  EXPECT_THAT(headline_of(tried), Not(HasSubstr("measured"))) << "the job itself was tried";
  plan.ranks[1].pt_reserved_cores = 1;
  EXPECT_THAT(headline_of(plan), HasSubstr("Reserve 1 to 11 cores of each rank"));
  plan.ranks.resize(1);
  EXPECT_THAT(headline_of(plan), HasSubstr("Reserve 11 cores for training"));
  EXPECT_EQ(headline_of(one_core()), "Training and the optimizer share the only core; nothing was measured.");
}

TEST(Decision, SaysThatItIsHalfAndHalf) {
  EXPECT_THAT(headline_of(untried_plan()),
              HasSubstr("5 pinned threads, which is DeepSpeed's half and half."));
}

TEST(Decision, NamesUnboundWithItsVerdictFigureAndInterval) {
  Plan plan = untried_plan();
  EXPECT_EQ(certainty_of(unmeasured()), "");
  add_candidate(plan, 2, 16, 16, 402000000).control = Control::unbound;
  add_samples(plan, 0, 900000000, 8, 1);
  add_samples(plan, 1, 201000000, 8, 1);
  EXPECT_THAT(certainty_of(plan), HasSubstr("In the search, against this plan, unbound was slower: +"));
  add_samples(plan, 1, 201000000, 8, 10);
  add_samples(plan, 2, 201000000, 8, 10);
  plan.evidence.estimate_round = 10;
  EXPECT_THAT(certainty_of(plan), HasSubstr("Against this plan, unbound is a tie: +"));
  plan.evidence.candidates.back().control = Control::none;
  EXPECT_EQ(certainty_of(plan), "Unbound was not measured.");
}

TEST(Decision, AfterOneVisitEachItSaysThatNoDifferenceIsKnownAndDrawsNone) {
  Plan plan = untried_plan();
  add_candidate(plan, 2, 16, 16, 402000000).control = Control::unbound;
  std::erase_if(plan.evidence.samples, [](const Sample& sample) { return sample.round > 0; });
  const std::string page = report_of(plan, nullptr);
  EXPECT_THAT(page, HasSubstr("Each split, unbound too, was measured once; differences are not known."));
  EXPECT_THAT(page, Not(HasSubstr("id=\"verdicts\"")));
}

TEST(Decision, WhereUnboundIsSurelyFasterItIsAdvisedAndNothingIsBound) {
  Plan plan = make_plan();
  plan.trial->candidates[0].runs = {{80}, {80.1}};
  plan.trial->candidates[1].runs = {{100}, {100.1}};
  EXPECT_EQ(headline_of(plan), "Run this job unbound: no plan can express what is best for it.");
  EXPECT_TRUE(next_step(plan, "plan.json").commands.empty());
}

TEST(Decision, AfterATrialTheJobItselfIsQuoted) {
  Plan plan = make_plan();
  plan.trial->candidates[1].runs.push_back({100.5});
  EXPECT_THAT(certainty_of(plan), HasSubstr("Against this plan, unbound is slower: +19."));
}

TEST(VerdictPlot, HasARowForThePlanAndEachOtherSplitFastestFirst) {
  const std::string plot = verdict_plot(compared_plan());
  const auto rows = rows_in(plot);
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].label, "unbound");
  EXPECT_EQ(rows[1].label, "pool 1, compact");
  EXPECT_EQ(rows[0].kind, "slower searched");
  EXPECT_THAT(rows[0].figures, testing::StartsWith("+9."));
  EXPECT_EQ(rows[0].verdict, "slower, in the search");
  EXPECT_LT(plot.find("201.0 ms per period"), plot.find("unbound<")) << "the plan is fastest";
  EXPECT_THAT(plot, HasSubstr("not checked after it"));
}

TEST(VerdictPlot, DrawsTheIntervalWhereItsFiguresAre) {
  const std::string plot = verdict_plot(compared_plan());
  EXPECT_EQ(reach_of(plot), 30) << "pool 1 takes four times as long";
  const auto rows = rows_in(plot);
  EXPECT_NEAR(rows[0].low, 50 + 48 * 9.2 / 30, 0.6);
  EXPECT_LT(rows[0].low, rows[0].high);
  EXPECT_EQ(rows[1].low, 98) << "beyond the plot";
  EXPECT_THAT(rows[1].drawing,
              AllOf(HasSubstr("M-2-5v10l8-5z"), Not(HasSubstr("M2-5v10l-8-5z")), Not(HasSubstr("<circle"))))
      << "one arrow, to the right";
  EXPECT_THAT(plot, HasSubstr("An arrow marks an interval that goes on beyond the plot."));
  EXPECT_THAT(plot, HasSubstr("class=\"tie-band\" x=\"46.80%\" width=\"6.40%\"")) << "2 % of 30 to each side";
}

TEST(VerdictPlot, ShadesTheTiesOfTheAccuracyThatWasAsked) {
  Plan plan = compared_plan();
  plan.evidence.accuracy_wanted = 0.3;
  EXPECT_EQ(reach_of(verdict_plot(plan)), 100);
  EXPECT_THAT(verdict_plot(plan), HasSubstr("within the shaded ±30.0 % is a tie"));
}

TEST(VerdictPlot, OfAThroughputPlusIsFasterAndStandsAtTheRight) {
  Plan plan = make_plan();
  plan.trial->higher_is_better = true;
  plan.trial->candidates[0].runs = {{80}, {80.1}, {80}};
  plan.trial->candidates[1].runs = {{100}, {100.1}, {100}};
  const std::string plot = verdict_plot(plan);
  EXPECT_LT(plot.find("← slower"), plot.find("faster →"));
  ASSERT_EQ(rows_in(plot).size(), 1U);
  EXPECT_EQ(rows_in(plot)[0].verdict, "slower");
  EXPECT_LT(rows_in(plot)[0].high, 50);
}

TEST(VerdictPlot, OfManySplitsTheSlowestAreLeftOutButNoControl) {
  Plan plan = compared_plan();
  for (int id = 3; id < 20; ++id) {
    add_candidate(plan, id, 4, id, 202000000 + 1000000 * id);
    add_samples(plan, id, 202000000 + 1000000 * id, 8, 1);
  }
  const std::string plot = verdict_plot(plan);
  const auto rows = rows_in(plot);
  EXPECT_EQ(rows.size(), 9U) << "8 and unbound";
  EXPECT_EQ(
      std::count_if(rows.begin(), rows.end(), [](const PlotRow& row) { return row.label == "unbound"; }), 1);
  EXPECT_THAT(plot, HasSubstr("The table of all splits also has 10 more."));
}

TEST(NextStep, StartsTheJobUnderThisPlanByTheLauncherOfItsFramework) {
  Plan plan = untried_plan();
  EXPECT_EQ(next_step(plan, "my plan.json").commands.front(),
            "torchrun --nproc-per-node 2 --no-python zf-tune exec --plan 'my plan.json' -- python train.py");
  plan.workload.framework = Framework::deepspeed_offload;
  EXPECT_EQ(next_step(plan, "plan.json").commands.front(),
            "deepspeed --no_python zf-tune exec --plan plan.json -- python train.py");
  plan.ranks.resize(1);
  EXPECT_EQ(next_step(plan, "plan.json").commands.front(),
            "zf-tune exec --plan plan.json -- python train.py");
  plan.workload.framework = Framework::superoffload;
  plan.intent.for_deepspeed = true;
  EXPECT_THAT(next_step(plan, "plan.json").commands.back(),
              testing::StartsWith("$(zf-tune export -q --for deepspeed plan.json) "));
  EXPECT_THAT(next_step(unmeasured(), "plan.json").words, HasSubstr("To measure first: zf-tune tune."));
}

TEST(NextStep, AfterATrialItIsThatJob) {
  Plan plan = make_plan();
  EXPECT_EQ(next_step(plan, "plan.json").commands.front(), "ZF_PLAN=plan.json torchrun train.py");
  plan.ranks.resize(1);
  EXPECT_EQ(next_step(plan, "plan.json").commands.front(),
            "zf-tune exec --plan plan.json -- torchrun train.py");
}

TEST(NextStep, ASimulatedMachineStartsNothing) {
  Plan plan = untried_plan();
  plan.evidence.isa = kSimulated;
  EXPECT_EQ(next_step(plan, "plan.json").commands, std::vector<std::string>{"zf-tune tune"});
}

/// Returns what the table of evidence has in this column for the chosen split; "" if there is no such column.
std::string cell_of(const Plan& plan, std::string_view title) {
  const Table table = evidence_table(plan);
  const auto& columns = table.columns();
  const auto column = std::find_if(columns.begin(), columns.end(),
                                   [&](const Table::Column& one) { return one.title == title; });
  if (column == columns.end()) return "";
  for (const auto& row : table.rows()) {
    if (row.front() == kChosenMark) return row[static_cast<std::size_t>(column - columns.begin())];
  }
  return "";
}

TEST(Decision, TheStepThatIsShownIsTheJobs) {
  Plan plan = untried_plan();
  plan.workload.step_factor = 1.5;
  EXPECT_EQ(cell_of(plan, "optimizer"), "301.5 ms");
  EXPECT_EQ(cell_of(plan, "our step"), "201.0 ms");
  const SidesPoint drawn = sides_of(plan).divided[1];
  EXPECT_EQ(drawn.step.low, 300.75e6);
  EXPECT_EQ(drawn.step.median, 301.5e6) << "a period lasts as its sides say";
  EXPECT_EQ(drawn.step.high, 302.25e6);
  plan.workload.step_factor.reset();
  EXPECT_EQ(cell_of(plan, "our step"), "");
}

TEST(Sides, LeaveOutTheVisitsAfterTheChoiceAsTheTableDoes) {
  Plan plan = untried_plan();
  add_samples(plan, 1, 999000000, 8, 10);
  plan.evidence.estimate_round = 10;
  EXPECT_EQ(sides_of(plan).divided[1].step.high, 201.5e6);
}

TEST(Sides, TrainingIsWhatTheModeHidesTheStepBehind) {
  Plan plan =
      untried_plan();  // 41 ms for a training step, four of them in a period, a forward share of 0.3125
  plan.workload.training->forward_share = 0.25;
  for (const auto& [mode, ms] : {std::pair(Mode::overlap, 164.0), std::pair(Mode::wait, 164.0),
                                 std::pair(Mode::backward, 30.75), std::pair(Mode::exact, 10.25)}) {
    plan.workload.mode = mode;
    EXPECT_NEAR(sides_of(plan).divided[1].training->median, ms * 1e6, 1) << name_of(mode);
  }
}

TEST(Sides, CrossBetweenThePoolsWhereTheStepBecomesTheShorterSide) {
  Plan plan = untried_plan();
  EXPECT_THAT(sides_in_words(plan, sides_of(plan)), HasSubstr("the step is the longer side at every size"));
  CandidateEvidence& large = add_candidate(plan, 2, 4, 8, 100000000);
  large.training_ns_median = plan.evidence.samples.back().times.training_ns = 45000000;
  EXPECT_THAT(sides_plot(plan), HasSubstr("between pools of 5 and 8 threads"));
  large.reserved_cores = 0;
  EXPECT_THAT(sides_plot(plan), HasSubstr("do not cross")) << "a shared home is another line";
  plan.evidence.candidates.back().reserved_cores = 4;
  plan.workload.mode = Mode::wait;
  EXPECT_THAT(sides_plot(plan), AllOf(Not(HasSubstr("cross")), HasSubstr("as long as both together")));
}

TEST(Sides, OfEqualPoolsTheChosenOneIsShownElseTheShortestPeriod) {
  Plan plan = untried_plan();
  add_candidate(plan, 2, 4, 5, 100000000);
  EXPECT_TRUE(sides_of(plan).divided[1].chosen);
  add_candidate(plan, 3, 14, 1, 800000000);
  EXPECT_EQ(sides_of(plan).divided[0].step.median, 800e6);
  plan.evidence.candidates.erase(plan.evidence.candidates.begin());
  plan.evidence.candidates.pop_back();
  std::erase_if(plan.evidence.samples, [](const Sample& sample) { return sample.candidate % 3 == 0; });
  EXPECT_EQ(sides_plot(plan), "") << "one size is no curve";
}

TEST(SamplesCsv, HasALineForEveryPeriodInTheOrderOfTime) {
  Plan plan = compared_plan();
  add_samples(plan, 1, 201000000, 4, 20);
  plan.evidence.estimate_round = 20;
  plan.evidence.candidates[1].label = "pool 5, \"spread\"";
  const std::string csv = samples_csv(plan);
  EXPECT_EQ(count_of(csv, "\n"), plan.evidence.samples.size() + 1);
  EXPECT_THAT(csv, testing::StartsWith("candidate,split,round,checks,period_ns,step_ns,"));
  EXPECT_THAT(
      csv,
      HasSubstr("\n1,\"pool 5, \"\"spread\"\"\",20,1,206143231,201000000,25125000,201000000,1000,2000,1\n"));
  EXPECT_EQ(count_of(csv, ",1,206"), 4U) << "those that check the choice";
  EXPECT_EQ(count_of(samples_csv(unmeasured()), "\n"), 1U);
}

TEST(TimeAxis, TicksAreRoundAndFewOnEveryAxis) {
  EXPECT_THAT(round_numbers(0, 108), ElementsAre(0, 50, 100));
  EXPECT_THAT(round_numbers(98, 131), ElementsAre(100, 110, 120, 130));
  for (double highest = 1e-3; highest < 1e9; highest *= 1.7) {
    const TimeAxis axis(highest);
    EXPECT_GE(axis.ticks().size(), 2U) << highest;
    EXPECT_LE(axis.ticks().size(), 6U) << highest;
    EXPECT_GT(axis.of(highest), 0) << highest;
    EXPECT_DOUBLE_EQ(axis.of(0), kChartHeight) << highest;
  }
}

TEST(MachineDrawing, ShowsEveryPuOnceWithItsRole) {
  const Plan plan = make_plan();
  const Topology topology = make_topology({.packages = 2, .l3_per_node = 2, .cores_per_l3 = 12});
  const std::string drawing = machine_drawing(plan, topology);
  for (const Pu pu : plan.machine.cpus) {
    EXPECT_EQ(count_of(drawing, "title=\"CPU " + std::to_string(pu.os_index) + ":"), 1U) << pu.os_index;
  }
  EXPECT_THAT(drawing,
              HasSubstr("class=\"pu training rank0\" title=\"CPU 4: rank 0, training\"><b>T0</b>4<"));
  EXPECT_THAT(drawing,
              HasSubstr("class=\"pu optimizer rank1\" title=\"CPU 42: rank 1, optimizer\"><b>O1</b>42<"));
  EXPECT_THAT(drawing, HasSubstr("CPU 1: not allowed"));
  EXPECT_EQ(count_of(drawing, ": rank 0, optimizer\""), plan.ranks[0].optimizer.cpus.size());
  EXPECT_EQ(count_of(drawing, "class=\"box package\""), 2U);
  EXPECT_EQ(count_of(drawing, "class=\"box node\""), 2U);
  EXPECT_EQ(count_of(drawing, "class=\"box l3\""), 4U);
  EXPECT_EQ(count_of(drawing, "<div"), count_of(drawing, "</div>"));
}

TEST(MachineDrawing, ASharedCoreIsBothSides) {
  const Topology topology = make_topology({});
  EXPECT_THAT(machine_drawing(one_core(), topology),
              HasSubstr("CPU 0: rank 0, training and optimizer\"><b>S0</b>"));
}

Plan shared_home() {
  Plan plan = unmeasured();
  plan.ranks = {make_rank(0, "4-11", "8-11", "0")};
  plan.ranks[0].home = {parse_cpu_list("4-11", "test"), 8};
  plan.ranks[0].training = {plan.ranks[0].home.cpus, 8};
  plan.ranks[0].pt_reserved_cores = 0;
  plan.ranks[0].shared = plan.intent.shared = true;
  return plan;
}

TEST(MachineDrawing, InASharedHomeThePoolsCpusAreBothSidesAndTheRestTrains) {
  const Plan plan = shared_home();
  const std::string drawing = machine_drawing(plan, bare_topology(plan));
  EXPECT_EQ(count_of(drawing, ": rank 0, training\""), 4U);
  EXPECT_EQ(count_of(drawing, ": rank 0, training and optimizer\""), 4U);
  EXPECT_THAT(drawing, HasSubstr("CPU 7: rank 0, training\"><b>T0</b>"));
  EXPECT_THAT(drawing, HasSubstr("CPU 8: rank 0, training and optimizer\"><b>S0</b>"));
  EXPECT_EQ(count_of(drawing, "</span> rank 0, training</span>"), 1U) << "the legend";
  EXPECT_EQ(count_of(drawing, "</span> rank 0, training and optimizer</span>"), 1U);
}

TEST(Headline, ASharedHomeSaysHowManyOfItsCoresThePoolUses) {
  EXPECT_THAT(
      headline_of(shared_home()),
      HasSubstr("Training has all 8 cores of its home, and the optimizer runs 4 pinned threads on some of "
                "them; nothing was measured."));
  Plan all = shared_home();
  all.ranks[0].optimizer.cpus = all.ranks[0].home.cpus;
  EXPECT_THAT(headline_of(all), HasSubstr("runs 8 pinned threads on all of them"));
  EXPECT_THAT(headline_of(one_core()), HasSubstr("share the only core"));
}

TEST(MachineDrawing, WhatIsNotKnownHasNoBox) {
  const std::string drawing = machine_drawing(make_plan(), bare_topology(make_plan()));
  EXPECT_EQ(count_of(drawing, "class=\"box "), 1U);
  EXPECT_THAT(drawing, HasSubstr("<h4>PUs</h4>"));
  EXPECT_EQ(count_of(drawing, "class=\"core\""), 48U);
  EXPECT_EQ(count_of(drawing, "<div"), count_of(drawing, "</div>"));
}

TEST(MachineDrawing, MoreRanksThanHuesStillDifferInWords) {
  Plan plan = unmeasured();
  plan.ranks.clear();
  for (int rank = 0; rank < 12; ++rank) {
    plan.ranks.push_back(
        make_rank(rank, std::to_string(4 * rank).c_str(), std::to_string(4 * rank + 1).c_str(), "0"));
  }
  const std::string drawing = machine_drawing(plan, bare_topology(plan));
  EXPECT_THAT(drawing, HasSubstr("training rank3\" title=\"CPU 44: rank 11, training\"><b>T11</b>"));
  EXPECT_EQ(count_of(drawing, "<div"), count_of(drawing, "</div>"));
}

TEST(Html, EscapesWhatIsMarkupAndNothingElse) {
  EXPECT_EQ(html_text("<a href=\"x\">'&</a> µ"), "&lt;a href=&quot;x&quot;&gt;&#39;&amp;&lt;/a&gt; µ");
}

}  // namespace
}  // namespace zf
