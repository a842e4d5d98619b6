#include "measure/bench.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>

#include <nlohmann/json.hpp>

namespace zf {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

/// Returns a row of two ranks. Their step moves 28 GB/s, and their roofline loop 56 GB/s.
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
  bench.of_ranks = true;
  return bench;
}

TEST(BenchRanks, TheBandwidthsAreThoseOfAllRanks) {
  const Bench bench = measured();
  EXPECT_THAT(bench_text(bench),
              AllOf(HasSubstr("all ranks at once\n"), HasSubstr("  28.00          56.00  0.500")));
  const json row = json::parse(bench_json(bench))["rows"][0];
  EXPECT_DOUBLE_EQ(row["step_bytes_per_s_median"], 28e9);
  EXPECT_DOUBLE_EQ(row["roofline_bytes_per_s_median"], 56e9);
}

TEST(BenchRanks, FitsTheTerminal) {
  std::istringstream lines(bench_text(measured(), 80));
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80U) << line;
}

}  // namespace
}  // namespace zf
