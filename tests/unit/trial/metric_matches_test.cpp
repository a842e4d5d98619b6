#include "trial/metric_matches.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/clock.hpp"
#include "base/error.hpp"

namespace zf {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(MetricMatches, FindsTheNumbersInTheirOrder) {
  const Metric metric("step: ([0-9.]+|nan)");
  MetricMatches matches(metric);
  for (const char* const line : {"step: 3", "", "loss 1", "step: nan", "step: 1.5 and step: 2"})
    matches.add(line);
  matches.find([] { return false; });
  EXPECT_THAT(matches.values(), ElementsAre(3, 1.5));
  EXPECT_EQ(matches.odd(), "nan");
}

TEST(MetricMatches, AnEmptyMatchIsAMatch) {
  const Metric metric("loss ([0-9.]*)");
  MetricMatches matches(metric);
  matches.add("loss nan");
  matches.find([] { return false; });
  EXPECT_EQ(matches.odd(), "");
}

TEST(MetricMatches, LooksAtManyLinesPieceByPiece) {
  const Metric metric("^t=([0-9]+)");
  MetricMatches matches(metric);
  for (int i = 1; i <= 3000; ++i) matches.add("t=" + std::to_string(i) + std::string(4096, ' '));
  matches.find([] { return false; });
  ASSERT_EQ(matches.values().size(), 3000U);
  EXPECT_EQ(matches.values().back(), 3000);
}

/// Returns the message that find() throws for 4000 letters x.
std::string refusal(const char* pattern) {
  const Metric metric(pattern);
  MetricMatches matches(metric, std::chrono::milliseconds(300));
  matches.add(std::string(4000, 'x'));
  try {
    matches.find([] { return false; });
  } catch (const Error& error) {
    EXPECT_EQ(error.exit(), Exit::usage);
    return error.what();
  }
  return "nothing";
}

TEST(MetricMatches, AnExpressionThatTriesEveryWayIsGivenUp) {
  const Nanoseconds begin = now_ns();
  EXPECT_THAT(refusal("(x+x+)+y"), HasSubstr("--metric '(x+x+)+y' takes too long"));
  EXPECT_THAT(refusal("(?:x*(?=x*(?=x*y)))"), HasSubstr("takes too long"));
  EXPECT_LT(now_ns() - begin, 20 * kSecondNs);
}

TEST(MetricMatches, ASecondSearchGoesOnBehindTheFirst) {
  const Metric metric("([0-9]+) ms");
  MetricMatches matches(metric);
  const auto never = [] { return false; };
  matches.add("1 ms");
  matches.find(never);
  EXPECT_EQ(matches.values(), std::vector<double>{1});
  matches.find(never);
  EXPECT_EQ(matches.values(), std::vector<double>{1});
  matches.add("2 ms");
  matches.add("nothing");
  matches.find(never);
  EXPECT_EQ(matches.values(), (std::vector<double>{1, 2}));
  EXPECT_EQ(matches.line_count(), 3U);
}

TEST(MetricMatches, StopsWhenAsked) {
  const Metric metric("(x+x+)+y");
  MetricMatches matches(metric, std::chrono::seconds(1));
  matches.add(std::string(4000, 'x'));
  int asked = 0;
  matches.find([&] { return ++asked > 1; });  // while the child searches
  EXPECT_EQ(asked, 2);
}

}  // namespace
}  // namespace zf
