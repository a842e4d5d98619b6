#include "search/decision.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <tuple>

#include "search/choice_words.hpp"
#include "search/choose.hpp"
#include "search/contest.hpp"
#include "search/headroom.hpp"

namespace zf {
namespace {

using testing::HasSubstr;
using testing::Not;

const Workload kWorkload{"test", 1'000'000, 1, 4, {}, Mode::overlap};

struct Times {
  int threads;
  Nanoseconds step_ns;
  Nanoseconds training_ns = 0;
  Control control = Control::none;
  bool shared = false;
};

/// Returns three rounds of four samples, each off by at most `noise`.
Evidence evidence_of(const std::vector<Times>& pools, double noise = 0.001,
                     const Workload& workload = kWorkload) {
  Evidence evidence;
  evidence.elements_per_rank = 1'000'000;
  evidence.accuracy_wanted = kDefaultTie;
  for (const Times& times : pools) {
    const auto id = static_cast<int>(evidence.candidates.size());
    CandidateEvidence candidate;
    candidate.id = id;
    candidate.label = "pool " + std::to_string(times.threads);
    candidate.control = times.control;
    candidate.pool_threads = candidate.pool_cores = times.threads;
    candidate.reserved_cores = times.shared ? 0 : 1;
    evidence.candidates.push_back(candidate);
    for (int round = 0; round < 3; ++round) {
      for (int i = 0; i < 4; ++i) {
        // Differs by round and candidate, so that there is noise between rounds too.
        const double off = 1 + noise * ((i - 1.5) / 1.5 + ((round + id) % 3 - 1)) / 2;
        SplitSample sample;
        sample.step_ns = static_cast<Nanoseconds>(static_cast<double>(times.step_ns) * off);
        sample.roofline_ns = times.step_ns;
        sample.training_ns = static_cast<Nanoseconds>(static_cast<double>(times.training_ns) * off);
        evidence.samples.push_back({id, round, sample});
      }
    }
  }
  summarize(evidence, workload);
  return evidence;
}

int chosen_threads(const Evidence& evidence) { return choose(evidence, kWorkload).pool_threads; }

Workload in_mode(Mode mode, int update_interval = 4) {
  Workload workload = kWorkload;
  workload.mode = mode;
  workload.update_interval = update_interval;
  return workload;
}

TEST(Choose, WithoutTrainingTheSmallestPoolWinsATie) {
  EXPECT_EQ(chosen_threads(evidence_of({{8, 1'000'000}, {4, 1'015'000}, {2, 1'500'000}})), 4);
  EXPECT_EQ(chosen_threads(evidence_of({{8, 1'000'000}, {4, 1'030'000}, {2, 1'500'000}})), 8);
}

TEST(Choose, ThePeriodIsTheLongerSideWhereTheyOverlap) {
  // Eight threads step faster, but training takes longer than the step.
  const Evidence evidence =
      evidence_of({{8, 1'000'000, 600'000}, {2, 2'000'000, 520'000}, {1, 4'000'000, 510'000}});
  EXPECT_NEAR(static_cast<double>(evidence.candidates[0].period_ns_median), 2'400'000, 2400);
  EXPECT_NEAR(static_cast<double>(evidence.candidates[1].period_ns_median), 2'080'000, 2080);
  EXPECT_EQ(evidence.candidates[1].exposed_ns_median, 0);
  EXPECT_NEAR(static_cast<double>(evidence.candidates[2].exposed_ns_median), 4'000'000 - 4 * 510'000, 2000);
  EXPECT_EQ(chosen_threads(evidence), 2);
  EXPECT_THAT(choose(evidence, kWorkload).reason, HasSubstr("hides behind 4 training steps"));
}

TEST(Choose, ThePeriodOfEachMode) {
  const SplitSample sample{.step_ns = 50, .training_ns = 30};
  const auto period = [&](Mode mode, int interval) {
    return period_ns(sample, {mode, interval, 1.0 / 3, 7});
  };
  EXPECT_DOUBLE_EQ(period(Mode::overlap, 1), 50 + 7);
  EXPECT_DOUBLE_EQ(period(Mode::overlap, 4), 4 * 30 + 7);
  EXPECT_DOUBLE_EQ(period(Mode::backward, 4), 3 * 30 + 10 + 50 + 7)
      << "forward, and then the longer of backward and step";
  EXPECT_DOUBLE_EQ(period(Mode::exact, 4), 3 * 30 + 20 + 50 + 7);
  EXPECT_DOUBLE_EQ(period(Mode::wait, 4), 4 * 30 + 50 + 7);
}

TEST(Choose, ParametersAreCopiedOnceAndNotExposedInModeExact) {
  Workload workload = in_mode(Mode::wait);
  workload.training = TrainingDemand{.parameter_bytes = 1'000'000, .copy_bytes_per_s = 1'000'000'000};
  EXPECT_EQ(schedule_of(workload, 1).parameters_ns, kMillisecondNs);
  EXPECT_EQ(schedule_of(workload, 0.5).parameters_ns, kMillisecondNs / 2);
  workload.mode = Mode::exact;
  EXPECT_EQ(schedule_of(workload, 1).parameters_ns, 0);
}

TEST(Choose, OfThePoolsThatLoseNothingIfTheJobDiffersTheSmallestWins) {
  // All hide behind 4 x 500 us. The step of 2 threads does not if it takes 1.5 times as long.
  EXPECT_EQ(
      chosen_threads(evidence_of({{8, 400'000, 500'000}, {4, 800'000, 500'000}, {2, 1'600'000, 500'000}})),
      4);
  EXPECT_EQ(chosen_threads(evidence_of({{3, 1'200'000, 500'000}, {2, 1'600'000, 500'000}})), 3)
      << "2 threads would lose 20 %";
}

TEST(Choose, OfPoolsThatTieTheOneWinsThatLosesLeastIfTheJobDiffers) {
  // With training 1.5 times as fast, the period of 8 threads is 1355 us, that of 6 threads 1333 us.
  EXPECT_EQ(chosen_threads(evidence_of({{8, 1'200'000, 508'000}, {6, 1'220'000, 500'000}}, 0.0001)), 6)
      << "although the step of 8 threads hides better";
  EXPECT_EQ(chosen_threads(evidence_of({{8, 1'400'000, 505'000}, {6, 1'900'000, 500'000}}, 0.0001)), 8);
}

TEST(Choose, ASaferSplitMayBeFivePercentSlower) {
  // The step of 4 threads only just hides: with training 1.5 times as fast they would lose 43 % to 6 threads.
  const auto pools = [](Nanoseconds training_ns) {
    return evidence_of({{4, 2'000'000, 500'000}, {6, 1'400'000, training_ns}}, 0.0001);
  };
  EXPECT_EQ(chosen_threads(pools(513'000)), 6);
  EXPECT_THAT(
      choose(pools(513'000), kWorkload).reason,
      HasSubstr("\"pool 4\" had the shortest period in the search, but if training is 1.5 times as fast, or "
                "the step 1.5 times as long, it loses 42.9 % to the best split, and this one 0.0 %"));
  EXPECT_EQ(chosen_threads(pools(530'000)), 4) << "6 % is too much";
  const Workload waits = in_mode(Mode::wait);
  EXPECT_EQ(choose(evidence_of({{4, 3'500'000, 125'000}, {6, 500'000, 900'000}}, 0.0001, waits), waits)
                .pool_threads,
            6)
      << "also where training waits";
}

TEST(Choose, AskedForMoreVisitsIsWhatMayBeSafer) {
  const auto asked = [](Nanoseconds training_ns) {
    return candidates_to_revisit(evidence_of({{4, 2'000'000, 500'000}, {6, 1'400'000, training_ns}}, 0.01),
                                 kWorkload, 4);
  };
  EXPECT_THAT(asked(530'000), testing::ElementsAre(0, 1)) << "6 % slower, but perhaps only 4 %";
  EXPECT_THAT(asked(600'000), testing::IsEmpty());
}

TEST(Choose, ASharedHomeWinsTiesWhereTrainingWaitsAndDividedOnesWhereTheSidesOverlap) {
  const std::vector<Times> pools{{4, 1'000'000, 500'000}, {8, 1'005'000, 500'000, Control::shared, true}};
  EXPECT_EQ(choose(evidence_of(pools), kWorkload).pool_threads, 4);
  const Workload waits = in_mode(Mode::wait);
  EXPECT_EQ(choose(evidence_of(pools, 0.001, waits), waits).pool_threads, 8);
}

TEST(Choose, AmongSharedHomesThatTieTheShortestStepWins) {
  const Workload waits = in_mode(Mode::wait);
  const std::vector<Times> pools{{8, 1'000'000, 500'000, Control::shared, true},
                                 {4, 990'000, 502'000, Control::none, true}};
  EXPECT_EQ(choose(evidence_of(pools, 0.001, waits), waits).pool_threads, 4);
}

TEST(Choose, SaysWhyInWords) {
  const auto reason = [](const Evidence& evidence) { return choose(evidence, kWorkload).reason; };
  EXPECT_THAT(
      reason(evidence_of({{8, 3'000'000}, {4, 3'045'000}})),
      HasSubstr(
          "The split \"pool 4\" is preferred. It takes 3.0 ms. In the search its period was within 2.0 % of "
          "the shortest that a plan can express, that of \"pool 8\""));
  EXPECT_THAT(reason(evidence_of({{8, 1'000'000}, {4, 2'000'000}})), HasSubstr("had the shortest period"));
  EXPECT_THAT(
      reason(evidence_of({{8, 1'000'000}, {4, 2'000'000}})),
      HasSubstr("In the search, against this plan, the next best, \"pool 4\", was slower: +100.0 % (+9"));
  EXPECT_THAT(reason(evidence_of({{1, 1'000'000}})), HasSubstr("Only one split"));
}

TEST(Choose, ATieHasBounds) {
  EXPECT_DOUBLE_EQ(tie_of(0.02, 0.01), 0.02);
  EXPECT_DOUBLE_EQ(tie_of(0.02, 0.03), 0.03) << "noise widens it";
  EXPECT_DOUBLE_EQ(tie_of(0.02, 0.1), 0.05) << "but not above two and a half times the accuracy";
}

TEST(Choose, WithinTheNoiseThePlanIsTheSharedHomeAndSaysSo) {
  const std::vector<Times> pools{{6, 1'000'000}, {8, 1'010'000, 0, Control::shared, true}, {2, 1'030'000}};
  const Choice noisy = choose(evidence_of(pools, 0.2), kWorkload);
  EXPECT_EQ(noisy.pool_threads, 8);
  EXPECT_THAT(noisy.reason, HasSubstr("no other split was shown to be faster. In the search, against this "
                                      "plan, \"pool 2\", which would win otherwise, was unclear: "));
  EXPECT_THAT(choose(evidence_of(pools), kWorkload).reason, Not(HasSubstr("shown")));
}

TEST(Choose, WhatIsNotSurelyFasterThanTheSharedHomeOnANoisyMachineIsNotChosen) {
  // The pool looks twice as fast, but visits to one split differ by a factor of 2.6.
  const std::vector<Times> pools{{6, 500'000}, {8, 1'000'000, 0, Control::shared, true}};
  const Evidence wild = evidence_of(pools, 0.9);
  const Choice choice = choose(wild, kWorkload);
  EXPECT_EQ(choice.pool_threads, 8);
  EXPECT_THAT(choice.reason, HasSubstr("No side loses a core"));
  EXPECT_THAT(noise_warning(wild), HasSubstr("very noisy"));
  const Evidence noisy = evidence_of(pools, 0.04);
  EXPECT_GT(noisy.noise_floor, noisy.accuracy_wanted);
  EXPECT_EQ(choose(noisy, kWorkload).pool_threads, 6) << "surely faster";
  EXPECT_EQ(noise_warning(noisy), "");
}

TEST(Choose, WithoutASharedHomeTheChoiceStaysHoweverNoisyTheMachine) {
  EXPECT_EQ(chosen_threads(evidence_of({{6, 500'000}, {8, 1'000'000}}, 0.9)), 6);
}

TEST(Choose, UnboundIsAlwaysNamedWithItsVerdictFigureAndInterval) {
  const auto reason = [](Nanoseconds unbound, double noise) {
    return choose(evidence_of({{8, 1'000'000, 0, Control::shared, true}, {16, unbound, 0, Control::unbound}},
                              noise),
                  kWorkload)
        .reason;
  };
  constexpr const char* kFigures = R"(: [+-][0-9.]+ % \([+-][0-9.]+ to [+-][0-9.]+ %; minus is faster\))";
  for (const auto& [unbound, noise, verdict] :
       {std::tuple(Nanoseconds{1'100'000}, 0.3, "unclear"),
        std::tuple(Nanoseconds{1'100'000}, 0.01, "slower"), std::tuple(Nanoseconds{900'000}, 0.01, "faster"),
        std::tuple(Nanoseconds{1'000'000}, 0.005, "a tie")}) {
    EXPECT_THAT(reason(unbound, noise),
                testing::ContainsRegex(std::string("against this plan, unbound was ") + verdict + kFigures));
  }
  EXPECT_THAT(choose(evidence_of({{8, 1'000'000}}), kWorkload).reason, HasSubstr("Unbound was not measured"));
}

TEST(Choose, WhereUnboundIsSurelyFasterTheAdviceSaysSoAndThePlanIsTheBestSplit) {
  const std::vector<Times> pools{
      {8, 1'000'000}, {16, 1'100'000, 0, Control::shared, true}, {16, 700'000, 0, Control::unbound}};
  const Choice choice = choose(evidence_of(pools), kWorkload);
  EXPECT_EQ(choice.pool_threads, 8) << "not the shared home, which is the slowest";
  EXPECT_THAT(choice.reason, HasSubstr("against this plan, unbound was faster: -30.0 % (-30."));
  EXPECT_EQ(advice_of(decide(contest_of(evidence_of(pools), kWorkload))),
            ". No plan can express that: run this job unbound");
  const Evidence tie = evidence_of({{8, 1'000'000}, {16, 995'000, 0, Control::unbound}});
  EXPECT_THAT(choose(tie, kWorkload).reason, HasSubstr("against this plan, unbound was faster: -0.5 % ("));
  EXPECT_EQ(advice_of(decide(contest_of(tie, kWorkload))), "");
}

/// Returns two pools that took 1.0 and 1.1 ms in the search, and these times in three rounds of visits after
/// the choice.
Evidence estimated_evidence(Nanoseconds first_after, Nanoseconds second_after) {
  Evidence evidence = evidence_of({{8, 1'000'000}, {4, 1'100'000}});
  evidence.estimate_round = 3;
  for (int round = 3; round < 6; ++round) {
    for (const auto& [id, step_ns] :
         {std::pair(0, first_after), std::pair(1, second_after + Nanoseconds{1000} * round)}) {
      evidence.samples.push_back({id, round, {.step_ns = step_ns, .roofline_ns = step_ns}});
    }
  }
  summarize(evidence, kWorkload);
  return evidence;
}

TEST(Choose, TheChoiceIsEstimatedByVisitsThatCameAfterIt) {
  const Evidence evidence = estimated_evidence(1'000'000, 1'050'000);
  EXPECT_NEAR(contest_of(evidence, kWorkload).difference(0, 1).estimate, 0.054, 1e-3);
  EXPECT_NEAR(static_cast<double>(evidence.candidates[1].period_ns_median), 1'100'000, 1000)
      << "the table has what the choice rests on";
  EXPECT_EQ(evidence.candidates[1].step_ns_median,
            evidence_of({{8, 1'000'000}, {4, 1'100'000}}).candidates[1].step_ns_median);
}

TEST(Choose, APeriodThatTheCheckContradictsIsNotQuoted) {
  EXPECT_THAT(choose(estimated_evidence(1'000'000, 1'050'000), kWorkload).reason,
              HasSubstr("had the shortest period in the search, 999.8 us. "));
  const std::string disturbed = choose(estimated_evidence(800'000, 900'000), kWorkload).reason;
  EXPECT_THAT(disturbed, HasSubstr("in the search. It takes 800.0 us by the visits after the choice. "));
  EXPECT_THAT(disturbed, Not(HasSubstr("999.8 us")));
}

TEST(Choose, ARunnerUpThatIsNotSurelyFasterChangesNothingAndTheReasonSaysSo) {
  const Choice choice = choose(estimated_evidence(1'000'000, 975'000), kWorkload);
  EXPECT_EQ(choice.pool_threads, 8);
  EXPECT_THAT(choice.reason, HasSubstr("Against this plan, the next best, \"pool 4\", is faster: -2.1 % ("));
  EXPECT_THAT(choice.reason,
              HasSubstr("; minus is faster). That is not surely more than 2.0 %, so the choice stays"));
  EXPECT_THAT(choose(estimated_evidence(1'000'000, 1'050'000), kWorkload).reason,
              Not(HasSubstr("the choice stays")));
}

TEST(Choose, IfTheRunnerUpTurnsOutFasterItWins) {
  EXPECT_EQ(chosen_threads(estimated_evidence(1'000'000, 800'000)), 4);
}

TEST(Choose, IfTheChoiceIsRefutedTheOthersAreJudgedAgain) {
  // 6 and 7 threads lose little if the job differs, and the smaller pool is preferred. The visits after the
  // choice show that it is slower.
  Evidence evidence =
      evidence_of({{8, 2'000'000, 500'000}, {6, 900'000, 505'000}, {7, 850'000, 504'000}}, 0.001);
  ASSERT_EQ(chosen_threads(evidence), 6);
  evidence.estimate_round = 3;
  for (int round = 3; round < 6; ++round) {
    for (const auto& [id, training_ns] :
         {std::pair(0, Nanoseconds{500'000}), std::pair(1, Nanoseconds{550'000})}) {
      const Nanoseconds ns = training_ns + Nanoseconds{100} * round * (id + 1);
      evidence.samples.push_back(
          {id, round, {.step_ns = 900'000, .roofline_ns = 900'000, .training_ns = ns}});
    }
  }
  summarize(evidence, kWorkload);
  EXPECT_EQ(chosen_threads(evidence), 7) << "not the fastest one, which would lose 49 %";
  EXPECT_THAT(choose(evidence, kWorkload).reason,
              HasSubstr("Against \"pool 8\", \"pool 6\", which the search preferred, is slower: +10."))
      << "pool 7 had no visits after the choice";
}

TEST(Choose, OneRoundAfterTheChoiceDoesNotHideWhatTheSearchKnows) {
  // The machine is noisy, the search has shown that the pool is faster, and a signal came after one more
  // round.
  Evidence evidence = evidence_of({{6, 500'000}, {8, 1'000'000, 0, Control::shared, true}}, 0.04);
  evidence.estimate_round = 3;
  for (const int id : {0, 1}) {
    const Nanoseconds ns = id == 0 ? 500'000 : 1'000'000;
    evidence.samples.push_back({id, 3, {.step_ns = ns, .roofline_ns = ns}});
  }
  summarize(evidence, kWorkload);
  ASSERT_GT(evidence.noise_floor, evidence.accuracy_wanted);
  EXPECT_EQ(chosen_threads(evidence), 6);
}

TEST(Choose, VisitsLeftOutAreSaid) {
  Evidence evidence = evidence_of({{8, 1'000'000}, {4, 1'100'000}, {2, 1'300'000}, {1, 1'900'000}});
  EXPECT_EQ(outliers_in_words(evidence, kWorkload), "");
  for (Sample& sample : evidence.samples) {
    if (sample.candidate == 1 && sample.round == 2) sample.times.step_ns *= 3;
  }
  summarize(evidence, kWorkload);
  EXPECT_EQ(outliers_in_words(evidence, kWorkload),
            "1 of 12 visits is left out: other visits of the same splits contradict it");
  EXPECT_EQ(chosen_threads(evidence), 8);
}

TEST(Choose, AsksForMoreOnlyWhereItMatters) {
  EXPECT_THAT(candidates_to_revisit(evidence_of({{8, 1'000'000}, {4, 1'500'000}}), kWorkload, 4),
              testing::IsEmpty());
  // Ids 0 and 1 cannot be told apart yet; 2 is much slower.
  Evidence evidence = evidence_of({{8, 1'000'000}, {4, 1'020'000}, {2, 1'900'000}}, 0.1);
  EXPECT_THAT(candidates_to_revisit(evidence, kWorkload, 4), testing::ElementsAre(0, 1));
}

TEST(Choose, HeadroomIsHowMuchTheJobMayDifferBeforeThePlanCostsFivePercent) {
  // 8 threads step in 1 ms beside training of 2 ms; 4 threads would do for training of 1.95 ms.
  const Evidence evidence = evidence_of({{8, 1'000'000, 500'000}, {4, 2'000'000, 487'500}}, 0);
  const Headroom headroom = headroom_of(evidence, kWorkload, 1).value();
  EXPECT_NEAR(headroom.training_speedup, 1.05, 0.015);
  EXPECT_NEAR(headroom.step_slowdown, 1.05, 0.03);
  const Headroom most = headroom_of(evidence, kWorkload, 0).value();
  EXPECT_EQ(most.training_speedup, kMostHeadroom);
  EXPECT_EQ(most.step_slowdown, kMostHeadroom);
}

TEST(Choose, OneSplitHasNoHeadroom) {
  // A sweep that a signal ended after its first visit: "more than 16 times" came of comparing it with itself.
  const Evidence one = evidence_of({{8, 1'000'000, 500'000}}, 0);
  EXPECT_FALSE(headroom_of(one, kWorkload, 0));
  EXPECT_FALSE(choose(one, kWorkload).headroom);
  EXPECT_TRUE(choose(evidence_of({{8, 1'000'000, 500'000}, {4, 2'000'000, 487'500}}, 0), kWorkload).headroom);
}

TEST(Choose, HeadroomIsNotSaidWhereTheNoiseHidesFivePercent) {
  // "More than 16 times" was said after one visit each, and with noise above 5 %.
  const std::vector<Times> alike = {{8, 1'000'000, 500'000}, {4, 1'000'000, 500'000}};
  EXPECT_TRUE(choose(evidence_of(alike, 0), kWorkload).headroom);
  EXPECT_FALSE(choose(evidence_of(alike, 0.3), kWorkload).headroom);
  Evidence one_visit = evidence_of(alike, 0);
  std::erase_if(one_visit.samples, [](const Sample& sample) { return sample.round > 0; });
  summarize(one_visit, kWorkload);
  EXPECT_FALSE(choose(one_visit, kWorkload).headroom);
}

TEST(Choose, TheUnboundControlIsNoSplitToHaveHeadroomBeside) {
  Evidence evidence = evidence_of({{8, 1'000'000, 500'000}, {4, 2'000'000, 487'500}}, 0);
  evidence.candidates[1].control = Control::unbound;
  EXPECT_FALSE(headroom_of(evidence, kWorkload, 0)) << "no plan can express it";
}

TEST(Choose, ComputesTheRooflineFromTheFastestCandidate) {
  const Evidence evidence = evidence_of({{2, 56'000'000}, {1, 100'000'000}});
  EXPECT_DOUBLE_EQ(evidence.roofline.bytes_per_s_median, 28e6 / 56e-3);
  EXPECT_EQ(evidence.roofline.threads, 2);
}

TEST(Choose, AStepFasterThanMemoryIsImpossible) {
  SplitSample sample;
  sample.step_ns = 100;
  sample.roofline_ns = 100;
  EXPECT_TRUE(is_possible(sample, 0));
  sample.roofline_ns = 130;
  EXPECT_FALSE(is_possible(sample, 0));
  EXPECT_TRUE(is_possible(sample, 0.11)) << "possible if times vary by that much";
  sample.roofline_ns = 9;
  EXPECT_FALSE(is_possible(sample, 0));
}

}  // namespace
}  // namespace zf
