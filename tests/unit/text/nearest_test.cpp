#include "text/nearest.hpp"

#include <gtest/gtest.h>

namespace zf {
namespace {

const std::vector<std::string> kCommands{"tune", "probe", "plan", "explain", "check", "exec", "export"};

TEST(Nearest, OneSlipIsSeenThrough) {
  for (const char* const typed : {"tun", "tuen", "tunee", "rune", "utne", "Tune", "TUNE", "tune"})
    EXPECT_EQ(nearest(typed, kCommands), "tune") << typed;
}

TEST(Nearest, TwoSlipsAreSeenThroughInALongWord) {
  EXPECT_EQ(nearest("expalni", kCommands), "explain");
  EXPECT_EQ(nearest("explainer", kCommands), "explain");
  EXPECT_EQ(nearest("expa", kCommands), std::nullopt) << "two slips are half of four letters";
  EXPECT_EQ(nearest("explaining", kCommands), std::nullopt) << "three slips";
}

TEST(Nearest, ABeginningCountsIfItIsTheOnlyOne) {
  EXPECT_EQ(nearest("expl", kCommands), "explain");
  EXPECT_EQ(nearest("t", kCommands), "tune");
  EXPECT_EQ(nearest("ex", kCommands), std::nullopt) << "explain, exec or export";
  EXPECT_EQ(nearest("exp", kCommands), std::nullopt) << "exec has two slips";
}

TEST(Nearest, TheFewestSlipsWinAndOfEqualsTheFirst) {
  EXPECT_EQ(nearest("expot", kCommands), "export");
  EXPECT_EQ(nearest("aab", {"aac", "aad"}), "aac");
  EXPECT_EQ(nearest("rank", {"ranks", "rank"}), "rank") << "no slip";
}

TEST(Nearest, AnotherWordIsNobodysNeighbour) {
  for (const char* const typed : {"", "x", "python", "train.py", "no-such-flag", "plan.json"})
    EXPECT_EQ(nearest(typed, kCommands), std::nullopt) << typed;
  EXPECT_EQ(nearest(std::string(1 << 20, 't'), kCommands), std::nullopt);
  EXPECT_EQ(nearest("tune", {}), std::nullopt);
}

TEST(DidYouMean, IsAQuestion) {
  EXPECT_EQ(did_you_mean("tun", kCommands), "did you mean tune?");
  EXPECT_EQ(did_you_mean("wiat", "overlap, exact, wait"), "did you mean wait?");
  EXPECT_EQ(did_you_mean("overlpa", "overlap, exact, wait"), "did you mean overlap?");
  EXPECT_EQ(did_you_mean("late", "overlap, exact, wait"), std::nullopt);
  EXPECT_EQ(did_you_mean("late", ""), std::nullopt);
}

}  // namespace
}  // namespace zf
