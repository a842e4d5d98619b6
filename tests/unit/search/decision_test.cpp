#include "search/decision.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "search/choose.hpp"

namespace zf {
namespace {

using testing::HasSubstr;
using testing::Not;

const Workload kWorkload{"test", 1'000'000, 1, 4, {}};

struct Times {
  int threads;
  Nanoseconds step_ns;
  Nanoseconds training_ns = 0;
  Control control = Control::none;
};

/// Returns three rounds of four samples, each off by at most `noise`.
Evidence evidence_of(const std::vector<Times>& pools, double noise = 0.001) {
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
    candidate.reserved_cores = 1;
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
  summarize(evidence, kWorkload);
  return evidence;
}

int chosen_threads(const Evidence& evidence) { return choose(evidence, kWorkload).pool_threads; }

TEST(Choose, TheSmallestPoolWinsATie) {
  EXPECT_EQ(chosen_threads(evidence_of({{8, 1'000'000}, {4, 1'015'000}, {2, 1'500'000}})), 4);
  EXPECT_EQ(chosen_threads(evidence_of({{8, 1'000'000}, {4, 1'030'000}, {2, 1'500'000}})), 8);
}

TEST(Choose, ThePeriodIsTheLongerSide) {
  // Eight threads step faster, but training takes longer than the step.
  const Evidence evidence =
      evidence_of({{8, 1'000'000, 600'000}, {2, 2'000'000, 520'000}, {1, 4'000'000, 510'000}});
  EXPECT_EQ(evidence.candidates[0].period_ns_median, 2'400'000);
  EXPECT_EQ(evidence.candidates[1].period_ns_median, 2'080'000);
  EXPECT_EQ(evidence.candidates[1].exposed_ns_median, 0);
  EXPECT_EQ(evidence.candidates[2].exposed_ns_median, 4'000'000 - 4 * 510'000);
  EXPECT_EQ(chosen_threads(evidence), 2);
  EXPECT_THAT(choose(evidence, kWorkload).reason, HasSubstr("hides behind 4 training steps"));
}

TEST(Choose, SaysWhyInWords) {
  const auto reason = [](const Evidence& evidence) { return choose(evidence, kWorkload).reason; };
  EXPECT_THAT(reason(evidence_of({{8, 1'000'000}, {4, 1'015'000}})), HasSubstr("ties"));
  EXPECT_THAT(reason(evidence_of({{8, 1'000'000}, {4, 2'000'000}})), HasSubstr("the shortest period"));
  EXPECT_THAT(reason(evidence_of({{1, 1'000'000}})), HasSubstr("only one split"));
}

TEST(Choose, ASmallerPoolThatMayTieIsOwnedUpTo) {
  const auto reason = [](const Evidence& evidence) { return choose(evidence, kWorkload).reason; };
  EXPECT_THAT(reason(evidence_of({{8, 1'000'000}, {4, 1'500'000}})),
              HasSubstr("No smaller pool comes within"));
  Evidence evidence = evidence_of({{8, 1'000'000}, {4, 1'030'000}}, 0.2);
  evidence.noise_floor = 0;
  EXPECT_EQ(chosen_threads(evidence), 8);
  EXPECT_THAT(reason(evidence), HasSubstr("A smaller pool may come within"));
}

TEST(Choose, NoiseWidensTheTie) {
  Evidence evidence = evidence_of({{8, 1'000'000}, {4, 1'060'000}});
  EXPECT_EQ(knee_of(evidence, kWorkload).pool_threads, 8);
  evidence.noise_floor = 0.08;
  EXPECT_EQ(knee_of(evidence, kWorkload).pool_threads, 4);
}

TEST(Choose, WithinTheNoiseThePlanIsTheConservativeOneAndSaysSo) {
  const std::vector<Times> pools{{6, 1'000'000}, {8, 1'010'000, 0, Control::half}, {2, 1'030'000}};
  const Choice noisy = choose(evidence_of(pools, 0.2), kWorkload);
  EXPECT_EQ(noisy.pool_threads, 8);
  EXPECT_THAT(noisy.reason, HasSubstr("Nothing beats the noise"));
  EXPECT_THAT(choose(evidence_of(pools), kWorkload).reason, Not(HasSubstr("noise")));
}

TEST(Choose, UnboundIsNeverChosenAndItsVictoryNotHidden) {
  const Choice choice = choose(evidence_of({{8, 1'000'000}, {16, 700'000, 0, Control::unbound}}), kWorkload);
  EXPECT_EQ(choice.pool_threads, 8);
  EXPECT_THAT(choice.reason, HasSubstr("unbound was 30.0 % faster"));
  EXPECT_THAT(choose(evidence_of({{8, 1'000'000}, {16, 995'000, 0, Control::unbound}}), kWorkload).reason,
              Not(HasSubstr("unbound")));
}

TEST(Choose, AsksForMoreOnlyWhereItMatters) {
  EXPECT_THAT(candidates_to_revisit(evidence_of({{8, 1'000'000}, {4, 1'500'000}}), kWorkload),
              testing::IsEmpty());
  // Ids 0 and 1 cannot be told apart yet; 2 is much slower.
  Evidence evidence = evidence_of({{8, 1'000'000}, {4, 1'020'000}, {2, 1'900'000}}, 0.1);
  EXPECT_THAT(candidates_to_revisit(evidence, kWorkload), testing::ElementsAre(0, 1));
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
