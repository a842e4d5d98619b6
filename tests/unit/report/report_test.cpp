#include "report/report.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "../machine/make_topology.hpp"
#include "../plan/make_plan.hpp"
#include "report/chart_data.hpp"
#include "report/explain.hpp"
#include "report/headline.hpp"
#include "report/heat_map.hpp"
#include "report/html.hpp"
#include "report/machine_drawing.hpp"

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

TEST(Report, TellsTheDecisionThenTheCandidatesThenDraws) {
  const Topology topology = make_topology({.packages = 2, .cores_per_l3 = 24});
  const std::string page = report_of(make_plan(), &topology);
  EXPECT_TRUE(page.starts_with("<!DOCTYPE html>"));
  std::size_t last = 0;
  for (const char* const part :
       {"<h1>CPU plan for node17", "class=\"headline\"", "5 cores saturate the memory", "id=\"candidates\"",
        "id=\"sides\"", "id=\"heat\"", "id=\"bandwidth\"", "id=\"trial\"", "id=\"homes\"", "id=\"machine\"",
        "zf-tune tune --ranks 2", "id=\"data\""}) {
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
  for (const char* const loads : {" src=", " href=", "<link", "@import", "url(", "sourceMappingURL"}) {
    EXPECT_THAT(page, Not(HasSubstr(loads)));
  }
}

TEST(Report, CarriesTheLicenceNoticeOfItsCharts) {
  EXPECT_THAT(report_of(make_plan(), nullptr), AllOf(HasSubstr("Chart.js v"), HasSubstr("MIT License")));
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
  for (const char* const control :
       {"\x1b", "\\u001b", "\x7f", "\\u007f", "\u009b", "\u202e", "\\u202e", "\u2028"}) {
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
  EXPECT_EQ(count_of(page, "<script"), 3U);
  EXPECT_EQ(count_of(page, "</script>"), 3U);
  EXPECT_THAT(page, HasSubstr("&lt;/script&gt;"));
  EXPECT_THAT(page, HasSubstr("\\u003c/script>"));
}

TEST(Report, WhatWasNotMeasuredIsSaidAndNotDrawn) {
  const std::string page = report_of(unmeasured(), nullptr);
  EXPECT_THAT(page, HasSubstr("Nothing was measured."));
  for (const char* const absent : {"<canvas", "<script", "id=\"candidates\"", "id=\"trial\""}) {
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
  EXPECT_THAT(page, HasSubstr("<h1>CPU plan for Test CPU, simulated</h1>"));
  EXPECT_LT(page.find("Simulated: no figure on this page was measured"), page.find("class=\"headline\""));
}

TEST(Report, SaysWhyTheseCoresWhereTheMachineIsKnown) {
  const Topology topology = make_topology({.packages = 2, .cores_per_l3 = 24});
  EXPECT_THAT(report_of(make_plan(), &topology), HasSubstr("could have no more of it"));
  EXPECT_THAT(report_of(make_plan(), nullptr), Not(HasSubstr("Why these cores")));
}

TEST(Report, AwayFromTheMachineItSaysThatNodesAreNotKnown) {
  const Topology topology = make_topology({.packages = 2, .cores_per_l3 = 24});
  EXPECT_THAT(report_of(make_plan(), nullptr),
              AllOf(HasSubstr("not known here"), Not(HasSubstr("NUMA node 0,"))));
  EXPECT_THAT(report_of(make_plan(), &topology),
              AllOf(Not(HasSubstr("not known here")), HasSubstr("NUMA node 0,")));
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
  Plan plan = make_plan();
  plan.trial.reset();
  EXPECT_THAT(headline_of(plan),
              HasSubstr(": 201.0 ms per period, which is DeepSpeed's half and half. Unbound was "
                        "not measured."));
}

TEST(Decision, NamesUnboundWithItsVerdictFigureAndInterval) {
  Plan plan = untried_plan();
  add_candidate(plan, 2, 16, 16, 402000000).control = Control::unbound;
  EXPECT_THAT(headline_of(plan), HasSubstr("How unbound compares with this plan is not known"))
      << "one visit";
  add_samples(plan, 1, 201000000, 8);
  add_samples(plan, 2, 402000000, 8);
  EXPECT_THAT(headline_of(plan), HasSubstr("In the search, against this plan, unbound was slower: +"));
  add_samples(plan, 1, 201000000, 8, 10);
  add_samples(plan, 2, 201000000, 8, 10);
  plan.evidence.estimate_round = 10;
  EXPECT_THAT(headline_of(plan), HasSubstr("Against this plan, unbound is a tie: +"));
}

TEST(Decision, AfterATrialTheJobItselfIsQuoted) {
  Plan plan = make_plan();
  plan.trial->candidates[1].runs.push_back({100.5});
  EXPECT_THAT(headline_of(plan), HasSubstr("Against this plan, unbound is slower: +19."));
}

TEST(Decision, FiguresNameBothSidesAndTheControlsThatWereMeasured) {
  Plan plan = untried_plan();
  add_candidate(plan, 2, 16, 16, 402000000).control = Control::unbound;
  std::vector<std::string> names;
  for (const KeyFigure& figure : figures_of(plan)) names.push_back(figure.name);
  EXPECT_THAT(names, ElementsAre("period", "optimizer step", "4 training steps", "optimizer time exposed",
                                 "bandwidth", "unbound against this plan"));
  EXPECT_EQ(figures_of(plan).front().note, "spread –") << "two periods";
  EXPECT_EQ(figures_of(plan).back().value, "not known");
  add_samples(plan, 1, 201000000, 8);
  add_samples(plan, 2, 402000000, 8);
  EXPECT_THAT(figures_of(plan).back().value, testing::StartsWith("+"));
  EXPECT_THAT(figures_of(plan).back().note,
              AllOf(testing::StartsWith("slower (+"), HasSubstr("; minus is faster), in the search")));
  EXPECT_TRUE(figures_of(unmeasured()).empty());
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
  EXPECT_EQ(figures_of(plan)[1].name, "optimizer step");
  EXPECT_EQ(figures_of(plan)[1].value, "301.5 ms");
  EXPECT_EQ(cell_of(plan, "optimizer"), "301.5 ms");
  EXPECT_EQ(cell_of(plan, "our step"), "201.0 ms");
  const auto sides = nlohmann::json::parse(chart_data(plan))["sides"];
  EXPECT_EQ(sides[0]["step"], nlohmann::json({300.75, 301.5, 302.25})) << "a period lasts as its bars say";
  plan.workload.step_factor.reset();
  EXPECT_EQ(cell_of(plan, "our step"), "");
}

TEST(ChartData, LeavesOutTheVisitsAfterTheChoiceAsTheTableDoes) {
  Plan plan = untried_plan();
  const std::string before = chart_data(plan);
  add_samples(plan, 1, 999000000, 8, 10);
  plan.evidence.estimate_round = 10;
  EXPECT_EQ(chart_data(plan), before);
}

TEST(HeatMap, ShowsTheShortestPeriodOfACellAndFramesTheChosenOne) {
  Plan plan = make_plan();
  add_candidate(plan, 2, 15, 1, 450000000);
  add_candidate(plan, 3, 3, 3, 100000000).control = Control::unbound;
  const std::string map = heat_map(plan);
  EXPECT_THAT(map, HasSubstr("--heat:0%\" title=\"made 2\">450</td>"));
  EXPECT_THAT(map, Not(HasSubstr("900")));
  EXPECT_THAT(map, HasSubstr("class=\"chosen\" style=\"--heat:100%\" title=\"pool 5, spread\">201</td>"));
  EXPECT_THAT(map, Not(HasSubstr(">100<"))) << "unbound reserves nothing";
  EXPECT_EQ(count_of(map, "<td></td>"), 2U) << "two rows and two columns, on a diagonal";
  EXPECT_EQ(heat_map(unmeasured()), "");
}

TEST(ChartData, HasTheQuartilesOfTheSamplesInOneUnit) {
  const auto data = nlohmann::json::parse(chart_data(make_plan()));
  EXPECT_EQ(data["unit"], "ms");
  const auto& fastest = data["sides"][0];
  EXPECT_EQ(fastest["label"], "pool 5, spread");
  EXPECT_EQ(fastest["chosen"], true);
  EXPECT_EQ(fastest["step"], nlohmann::json({200.5, 201.0, 201.5}));
  EXPECT_EQ(fastest["training"], nlohmann::json({164.0, 164.0, 164.0})) << "the four steps of a period";
  const auto& point = data["bandwidth"]["points"][1];
  EXPECT_EQ(point["x"], 5);
  EXPECT_NEAR(point["y"][1], 2.0 * (32U << 20) * 28 / 0.201 / 1e9, 0.01);
  EXPECT_NEAR(data["bandwidth"]["roofline"][1]["y"], 2.0 * (32U << 20) * 28 / 0.1905 / 1e9, 0.01);
  EXPECT_EQ(data["bandwidth"]["marks"], nlohmann::json::parse(R"([{"x": 5, "text": "chosen: 5"}])"));
}

TEST(ChartData, WhereThereAreTooManyBarsTheChosenOneAndTheControlsStay) {
  Plan plan = make_plan();
  for (int id = 2; id < 62; ++id) add_candidate(plan, id, 4, id, 1000000 + id);
  add_candidate(plan, 62, 4, 70, 950000000).control = Control::unbound;
  EXPECT_EQ(bars_shown(plan), 22U) << "20 of the fastest, the chosen one, unbound";
  const auto sides = nlohmann::json::parse(chart_data(plan))["sides"];
  EXPECT_EQ(sides.back()["label"], "made 62");
  EXPECT_EQ(sides[20]["chosen"], true);
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
  EXPECT_EQ(json_for_script(R"({"a":"</script><!--"})"), R"({"a":"\u003c/script>\u003c!--"})");
}

}  // namespace
}  // namespace zf
