#include "compare/comparison.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace zf {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Comparison unbound(const Difference& longer, double accuracy = 0.02) {
  Comparison comparison;
  comparison.name = "unbound";
  comparison.longer = longer;
  comparison.accuracy = accuracy;
  return comparison;
}

TEST(Comparison, ThereAreThreeVerdictsAndNoneWithoutAnInterval) {
  EXPECT_EQ(verdict_of(unbound({-0.05, -0.08, -0.02})), Verdict::faster);
  EXPECT_EQ(verdict_of(unbound({0.05, 0.02, 0.08})), Verdict::slower);
  EXPECT_EQ(verdict_of(unbound({0.003, -0.008, 0.014})), Verdict::tie);
  EXPECT_EQ(verdict_of(unbound({0.012, -0.027, 0.054})), Verdict::unclear);
  EXPECT_EQ(verdict_of(unbound({-0.012, -0.051, 0.028})), Verdict::unclear);
  EXPECT_EQ(verdict_of(unbound({0.012, -1, kInfinity})), std::nullopt);
}

TEST(Comparison, TheSharedHomeAndHalfAndHalfOfOnePlanGetTheSameVerdict) {
  // Both were drawn by their estimates alone: the one as a loss, the other as a tie.
  EXPECT_EQ(verdict_of(unbound({0.029, -0.020, 0.081})), Verdict::unclear);
  EXPECT_EQ(verdict_of(unbound({0.011, -0.018, 0.040})), Verdict::unclear);
}

TEST(Comparison, AnIntervalWithoutZeroIsNoTieHoweverSmall) {
  EXPECT_EQ(verdict_of(unbound({0.005, 0.003, 0.007})), Verdict::slower);
  EXPECT_EQ(verdict_of(unbound({-0.005, -0.007, -0.003})), Verdict::faster);
}

TEST(Comparison, TheVerdictIsThatOfThePrintedFigures) {
  const Comparison nearly = unbound({0.004, 0.0004, 0.0076});
  EXPECT_EQ(print_figures(nearly), "+0.4 % (+0.0 to +0.8 %)");
  EXPECT_EQ(verdict_of(nearly), Verdict::tie);
  EXPECT_EQ(verdict_of(unbound({0, -0.0204, 0.0204})), Verdict::tie);
  EXPECT_EQ(verdict_of(unbound({0, -0.0206, 0.0206})), Verdict::unclear);
  EXPECT_EQ(print_figures(unbound({-0.0001, -0.0003, 0.0001})), "+0.0 % (+0.0 to +0.0 %)") << "no -0.0";
}

TEST(Comparison, ALimitThatMeansNothingIsNotSpeltOut) {
  EXPECT_EQ(print_figures(unbound({-0.3, -0.999, 2837638})), "-30.0 % (-99.9 to above +1000 %)");
}

TEST(Comparison, SaysVerdictFiguresIntervalAndWhichSignIsFaster) {
  EXPECT_EQ(comparison_in_words(unbound({0.0118, -0.0272, 0.0537})),
            "Against this plan, unbound is unclear: +1.2 % (-2.7 to +5.4 %; minus is faster)");
  EXPECT_EQ(comparison_in_words(unbound({-0.062, -0.08, -0.044})),
            "Against this plan, unbound is faster: -6.2 % (-8.0 to -4.4 %; minus is faster)");
  EXPECT_EQ(comparison_in_words(unbound({0.003, -0.008, 0.014})),
            "Against this plan, unbound is a tie: +0.3 % (-0.8 to +1.4 %; minus is faster)");
}

TEST(Comparison, WithoutAnIntervalThereIsNoFigure) {
  const std::string words = comparison_in_words(unbound({-0.27, -1, kInfinity}));
  EXPECT_EQ(words, "How unbound compares with this plan is not known: too few measurements");
  EXPECT_EQ(words.find("27"), std::string::npos);
}

TEST(Comparison, WhatTheSearchSaysIsCalledSo) {
  Comparison comparison = unbound({0.094, 0.07, 0.118});
  comparison.basis = Basis::search;
  EXPECT_EQ(
      comparison_in_words(comparison),
      "In the search, against this plan, unbound was slower: +9.4 % (+7.0 to +11.8 %; minus is faster); "
      "not checked after the choice");
  comparison.basis = Basis::search_still;
  EXPECT_NE(comparison_in_words(comparison).find("; checked too little after the choice"), std::string::npos);
}

TEST(Comparison, ALowerThroughputIsSlower) {
  Comparison comparison = unbound({0.25, 0.2, 0.6});
  comparison.of_rates = true;
  EXPECT_EQ(comparison_in_words(comparison),
            "Against this plan, unbound is slower: -20.0 % (-37.5 to -16.7 %; plus is faster)");
}

}  // namespace
}  // namespace zf
