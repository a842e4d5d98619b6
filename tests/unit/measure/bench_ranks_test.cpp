#include "measure/bench.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>

#include <nlohmann/json.hpp>

namespace zf {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

/// Returns a row of two ranks whose step moves 28 GB/s, and whose roofline loop moves 56 GB/s.
Bench measured() {
  BenchRow row;
  row.ranks = 2;
  row.binding = "homes";
  row.threads = 8;
  row.elements = 1'000'000;
  SplitSample sample;
  sample.step_ns = 1'000'000;
  sample.roofline_ns = 500'000;
  row.samples = {sample, sample, sample};
  Bench bench{1'000'000, "avx2", {row}};
  bench.nominal.emplace();
  return bench;
}

TEST(BenchRanks, TheShareOfTheNominalBandwidthIsALowerBound) {
  Bench bench = measured();
  bench.nominal = {70e9, 2, ""};
  const std::string text = bench_text(bench);
  EXPECT_THAT(
      text,
      HasSubstr("\nnominal memory bandwidth: at most 70.00 GB/s for the whole machine (2 modules), if every "
                "module has a channel of its own\n"));
  EXPECT_THAT(text, HasSubstr("  nominal\n"));
  EXPECT_THAT(text, HasSubstr(">= 40.0 %\n"));
  const json document = json::parse(bench_json(bench));
  EXPECT_EQ(document["nominal_bytes_per_s"], 70e9);
  EXPECT_DOUBLE_EQ(document["rows"][0]["nominal_share"], 0.4);
}

TEST(BenchRanks, FitsTheTerminal) {
  Bench bench = measured();
  bench.nominal = {70e9, 2, ""};
  std::istringstream lines(bench_text(bench, 80));
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80U) << line;
}

TEST(BenchRanks, MoreThanTheNominalBandwidthIsNoLowerBound) {
  Bench bench = measured();
  bench.nominal = {20e9, 1, ""};
  EXPECT_THAT(bench_text(bench), HasSubstr("(1 module)"));
  EXPECT_THAT(bench_text(bench), HasSubstr("over 100 %\n"));
}

TEST(BenchRanks, AnUnknownNominalBandwidthIsOneLineAndNoColumn) {
  Bench bench = measured();
  bench.nominal->unknown_because = "there is a reason";
  const std::string text = bench_text(bench);
  EXPECT_THAT(text, HasSubstr("\nnominal memory bandwidth: unknown, because there is a reason\n"));
  EXPECT_THAT(text, Not(HasSubstr("  nominal")));
  EXPECT_THAT(text, Not(HasSubstr(">=")));
  const json document = json::parse(bench_json(bench));
  EXPECT_FALSE(document.contains("nominal_bytes_per_s"));
  EXPECT_EQ(document["nominal_unknown_because"], "there is a reason");
  EXPECT_FALSE(document["rows"][0].contains("nominal_share"));
}

}  // namespace
}  // namespace zf
