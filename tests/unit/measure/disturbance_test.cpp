#include "measure/disturbance.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "base/cpu_list.hpp"
#include "measure/bench.hpp"
#include "text/wrap.hpp"

namespace zf {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

/// Returns samples with roofline loops that take these times, beside steps of 1 ms.
std::vector<SplitSample> pairs_of(const std::vector<Nanoseconds>& rooflines_ns) {
  std::vector<SplitSample> samples;
  for (const Nanoseconds roofline_ns : rooflines_ns) {
    SplitSample sample;
    sample.step_ns = 1'000'000;
    sample.roofline_ns = roofline_ns;
    samples.push_back(sample);
  }
  return samples;
}

/// Returns a bench of one thread and of two. Only the second is disturbed.
Bench half_disturbed() {
  Bench bench{1'000'000, "avx2", {}, {}};
  bench.rows.push_back({1, parse_cpu_list("0", "test"), pairs_of({1'000'000, 1'010'000, 1'020'000})});
  bench.rows.push_back({2, parse_cpu_list("0-1", "test"), pairs_of({900'000, 1'800'000, 8'000'000})});
  bench.neighbours = {{"stress", 4711, 0.97}};
  return bench;
}

TEST(Disturbance, ASpreadOrARatioThatCannotBeIsDisturbed) {
  EXPECT_FALSE(is_disturbed(1.05, 0.01));
  EXPECT_FALSE(is_disturbed(0.9, 0.25));
  EXPECT_TRUE(is_disturbed(0.9, 0.26));
  EXPECT_TRUE(is_disturbed(1.16, 0.01)) << "the step cannot be faster than memory";
  EXPECT_FALSE(is_disturbed(1.16, 0.2)) << "within the noise";
  EXPECT_TRUE(is_disturbed(1.795, 4.084)) << "seen on a busy node";
}

TEST(Disturbance, ARowIsMarkedAndWhatElseRunsIsNamed) {
  const std::string text = bench_text(half_disturbed());
  std::istringstream lines(text);
  std::vector<std::string> rows;
  for (std::string line; std::getline(lines, line);) rows.push_back(line);
  ASSERT_GE(rows.size(), 5U);
  EXPECT_THAT(rows[3], Not(HasSubstr("disturbed")));
  EXPECT_THAT(rows[4], testing::EndsWith("  disturbed"));
  EXPECT_THAT(text, HasSubstr("On these CPUs also ran stress (process 4711, 97 % of a CPU). Measure again "
                              "without it."));
}

TEST(Disturbance, WithoutAMarkNothingIsSaid) {
  Bench calm = half_disturbed();
  calm.rows.pop_back();
  EXPECT_THAT(bench_text(calm), Not(HasSubstr("disturbed")));
  EXPECT_THAT(bench_text(calm), Not(HasSubstr("stress")));
}

TEST(Disturbance, ItIsSaidIfNobodyWasSeen) {
  EXPECT_THAT(disturbance_in_words({}, 1000), HasSubstr("No other process was seen on these CPUs"));
  const std::vector<Neighbour> many(7, Neighbour{"a\x1b[2J", 1, 0.5});
  const std::string text = disturbance_in_words(many, 1000);
  EXPECT_THAT(text, HasSubstr(" and 2 more. Measure again without them."));
  EXPECT_THAT(text, HasSubstr("a [2J (process 1, 50 % of a CPU)"));
}

TEST(Disturbance, ProgramsAreToldTheSame) {
  const json document = json::parse(bench_json(half_disturbed()));
  EXPECT_EQ(document["pools"][0]["disturbed"], false);
  EXPECT_EQ(document["pools"][1]["disturbed"], true);
  EXPECT_EQ(document["neighbours"], json::parse(R"([{"process": "stress", "pid": 4711, "cpus": 0.97}])"));
}

TEST(Disturbance, RanksAreMarkedToo) {
  BenchRow row;
  row.ranks = 2;
  row.binding = "homes";
  row.elements = 1'000'000;
  row.samples = pairs_of({900'000, 1'800'000, 8'000'000});
  Bench bench{1'000'000, "avx2", {row}, {{"stress", 4711, 0.97}}};
  bench.of_ranks = true;
  EXPECT_THAT(bench_text(bench), HasSubstr("  disturbed\n"));
  EXPECT_THAT(bench_text(bench), HasSubstr("stress (process 4711"));
  const json document = json::parse(bench_json(bench));
  EXPECT_EQ(document["rows"][0]["disturbed"], true);
  EXPECT_EQ(document["neighbours"].size(), 1U);
}

TEST(Disturbance, TheTableFitsThePage) {
  for (const std::size_t width : {40U, 80U}) {
    std::istringstream lines(bench_text(half_disturbed(), width));
    for (std::string line; std::getline(lines, line);) EXPECT_LE(columns_of(line), width) << line;
  }
}

}  // namespace
}  // namespace zf
