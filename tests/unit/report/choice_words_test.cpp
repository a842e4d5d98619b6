// What the reason of a choice says.
#include "report/reasons.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tuple>

#include "../search/made_evidence.hpp"

namespace zf {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string reason_for(const Evidence& evidence) {
  return reason_of(evidence, kWorkload, decide(contest_of(evidence, kWorkload)), 0);
}

TEST(ChoiceWords, SaysWhyInWords) {
  EXPECT_THAT(
      reason_for(evidence_of({{8, 3'000'000}, {4, 3'045'000}})),
      HasSubstr(
          "The split \"pool 4\" is preferred. It takes 3.0 ms. In the search its period was within 2.0 % of "
          "the shortest that a plan can express, that of \"pool 8\""));
  EXPECT_THAT(reason_for(evidence_of({{8, 1'000'000}, {4, 2'000'000}})),
              HasSubstr("had the shortest period"));
  EXPECT_THAT(
      reason_for(evidence_of({{8, 1'000'000}, {4, 2'000'000}})),
      HasSubstr("In the search, against this plan, the next best, \"pool 4\", was slower: +100.0 % (+9"));
  EXPECT_THAT(reason_for(evidence_of({{1, 1'000'000}})), HasSubstr("Only one split"));
}

TEST(ChoiceWords, UnboundIsAlwaysNamedWithItsVerdictFigureAndInterval) {
  const auto reason = [](Nanoseconds unbound, double noise) {
    return reason_for(
        evidence_of({{8, 1'000'000, 0, Control::shared, true}, {16, unbound, 0, Control::unbound}}, noise));
  };
  constexpr const char* kFigures = R"(: [+-][0-9.]+ % \([+-][0-9.]+ to [+-][0-9.]+ %; minus is faster\))";
  for (const auto& [unbound, noise, verdict] :
       {std::tuple(Nanoseconds{1'100'000}, 0.3, "unclear"),
        std::tuple(Nanoseconds{1'100'000}, 0.01, "slower"), std::tuple(Nanoseconds{900'000}, 0.01, "faster"),
        std::tuple(Nanoseconds{1'000'000}, 0.005, "a tie")}) {
    EXPECT_THAT(reason(unbound, noise),
                testing::ContainsRegex(std::string("against this plan, unbound was ") + verdict + kFigures));
  }
  EXPECT_THAT(reason_for(evidence_of({{8, 1'000'000}})), HasSubstr("Unbound was not measured"));
}

TEST(ChoiceWords, APeriodThatTheCheckContradictsIsNotQuoted) {
  EXPECT_THAT(reason_for(estimated_evidence(1'000'000, 1'050'000)),
              HasSubstr("had the shortest period in the search, 999.8 us. "));
  const std::string disturbed = reason_for(estimated_evidence(800'000, 900'000));
  EXPECT_THAT(disturbed, HasSubstr("in the search. It takes 800.0 us by the visits after the choice. "));
  EXPECT_THAT(disturbed, Not(HasSubstr("999.8 us")));
}

TEST(ChoiceWords, VisitsLeftOutAreSaid) {
  Evidence evidence = evidence_of({{8, 1'000'000}, {4, 1'100'000}, {2, 1'300'000}, {1, 1'900'000}});
  EXPECT_EQ(outliers_in_words(evidence, kWorkload), "");
  for (Sample& sample : evidence.samples) {
    if (sample.candidate == 1 && sample.round == 2) sample.times.step_ns *= 3;
  }
  summarize(evidence, kWorkload);
  EXPECT_EQ(outliers_in_words(evidence, kWorkload),
            "1 of 12 visits is left out: other visits of the same splits contradict it");
  EXPECT_EQ(decide(contest_of(evidence, kWorkload)).winner, 0U);
}

TEST(ChoiceWords, TheStepThatIsHiddenIsNamed) {
  EXPECT_THAT(reason_for(evidence_of({{8, 1'000'000, 600'000}, {2, 2'000'000, 520'000}})),
              HasSubstr("hides behind 4 training steps"));
}

TEST(ChoiceWords, WhatASaferSplitSavesIsSaid) {
  EXPECT_THAT(
      reason_for(evidence_of({{4, 2'000'000, 500'000}, {6, 1'400'000, 513'000}}, 0.0001)),
      HasSubstr("\"pool 4\" had the shortest period in the search, but if training is 1.5 times as fast, or "
                "the step 1.5 times as long, it loses 42.9 % to the best split, and this one 0.0 %"));
}

TEST(ChoiceWords, ASharedHomeBecauseOfTheNoiseIsSaid) {
  const std::vector<Times> pools{{6, 1'000'000}, {8, 1'010'000, 0, Control::shared, true}, {2, 1'030'000}};
  EXPECT_THAT(
      reason_for(evidence_of(pools, 0.2)),
      HasSubstr("no other split was shown to be faster. In the search, against this plan, \"pool 2\", "
                "which would win otherwise, was unclear: "));
  EXPECT_THAT(reason_for(evidence_of(pools)), Not(HasSubstr("shown")));
}

TEST(ChoiceWords, AVeryNoisyMachineIsWarnedOf) {
  const std::vector<Times> pools{{6, 500'000}, {8, 1'000'000, 0, Control::shared, true}};
  EXPECT_THAT(reason_for(evidence_of(pools, 0.9)), HasSubstr("No side loses a core"));
  EXPECT_THAT(noise_warning(evidence_of(pools, 0.9)), HasSubstr("very noisy"));
  EXPECT_EQ(noise_warning(evidence_of(pools, 0.04)), "");
}

TEST(ChoiceWords, WhereUnboundIsSurelyFasterTheAdviceSaysSo) {
  const auto unbound = [](Nanoseconds ns) {
    return evidence_of(
        {{8, 1'000'000}, {16, 1'100'000, 0, Control::shared, true}, {16, ns, 0, Control::unbound}});
  };
  const auto advice = [](const Evidence& evidence) {
    return advice_of(decide(contest_of(evidence, kWorkload)));
  };
  EXPECT_THAT(reason_for(unbound(700'000)),
              HasSubstr("against this plan, unbound was faster: -30.0 % (-30."));
  EXPECT_EQ(advice(unbound(700'000)), ". No plan can express that: run this job unbound");
  EXPECT_THAT(reason_for(unbound(995'000)), HasSubstr("against this plan, unbound was faster: -0.5 % ("));
  EXPECT_EQ(advice(unbound(995'000)), "");
}

TEST(ChoiceWords, WhyTheChoiceStaysIsSaid) {
  const std::string reason = reason_for(estimated_evidence(1'000'000, 975'000));
  EXPECT_THAT(reason, HasSubstr("Against this plan, the next best, \"pool 4\", is faster: -2.1 % ("));
  EXPECT_THAT(reason,
              HasSubstr("; minus is faster). That is not surely more than 2.0 %, so the choice stays"));
  EXPECT_THAT(reason_for(estimated_evidence(1'000'000, 1'050'000)), Not(HasSubstr("the choice stays")));
}

TEST(ChoiceWords, WhatRefutedTheChoiceIsSaid) {
  EXPECT_THAT(reason_for(refuted_evidence(true)),
              HasSubstr("Against \"pool 8\", \"pool 6\", which the search preferred, is slower: +10."))
      << "pool 7 had no visits after the choice";
}

}  // namespace
}  // namespace zf
