#include "trial/trial_splits.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace zf {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Home home_of(int cores) {
  Home home;
  for (int i = 0; i < cores; ++i) home.cores.push_back({CpuSet{Pu{i}}, Node{0}, 0, 0});
  home.mems = NodeSet{Node{0}};
  return home;
}

CandidateEvidence measured(int id, int pool, Nanoseconds period) {
  CandidateEvidence candidate;
  candidate.id = id;
  candidate.pool_cores = candidate.pool_threads = pool;
  candidate.reserved_cores = 8 - pool;
  candidate.period_ns_median = period;
  return candidate;
}

/// Returns a plan for any job, by a sweep, that does not know its own split.
Plan plan_of(const Evidence& evidence) {
  Plan plan;
  plan.evidence = evidence;
  return plan;
}

std::vector<std::string> labels(const std::vector<TrialSplit>& splits) {
  std::vector<std::string> names;
  for (const TrialSplit& split : splits) names.push_back(split.split.label);
  return names;
}

TEST(TrialSplits, TheBestItsMultiplesAndTheControlsEachBindingOnce) {
  Evidence evidence;
  evidence.candidates = {measured(0, 3, 900), measured(1, 2, 500), measured(2, 3, 510), measured(3, 1, 600)};
  evidence.candidates.push_back(measured(4, 8, 100));
  evidence.candidates.back().control = Control::unbound;
  const auto splits = trial_splits(plan_of(evidence), {home_of(8)}, 4);
  // There is no pool of 8 of 8 cores. The next best of the sweep comes in its place. Half and half is
  // missing: it is the same binding as the pool of 4.
  EXPECT_EQ(labels(splits), (std::vector<std::string>{"pool 2, compact", "pool 1, compact", "pool 4, compact",
                                                      "pool 3, compact", "shared home", "80/20", "unbound"}));
  std::vector<int> ids;
  for (const TrialSplit& split : splits) ids.push_back(split.evidence_id);
  EXPECT_EQ(ids, (std::vector<int>{1, 3, -1, 2, -1, -1, 4}));
}

TEST(TrialSplits, PoolsOfSharedHomesMayHaveAllCores) {
  Evidence evidence;
  evidence.candidates = {measured(0, 2, 500)};
  evidence.candidates[0].reserved_cores = 0;
  EXPECT_EQ(labels(trial_splits(plan_of(evidence), {home_of(8)}, 4)),
            (std::vector<std::string>{"shared home, pool 2, compact", "shared home, pool 1, compact",
                                      "shared home, pool 4, compact", "shared home, pool 8, compact",
                                      "half and half", "80/20", "unbound"}));
}

TEST(TrialSplits, TheSmallestHomeBoundsThePool) {
  Evidence evidence;
  evidence.candidates = {measured(0, 2, 500)};
  for (const TrialSplit& split : trial_splits(plan_of(evidence), {home_of(8), home_of(4)}, 4)) {
    EXPECT_NE(split.split.label, "pool 4, compact");
  }
}

TEST(TrialSplits, WithoutEvidenceTheControls) {
  EXPECT_EQ(labels(trial_splits(plan_of({}), {home_of(8)}, 3)),
            (std::vector<std::string>{"shared home", "half and half", "80/20", "unbound"}));
}

TEST(TrialSplits, SiblingsAndIdleCoresComeBack) {
  Home home;
  for (int i = 0; i < 8; ++i) home.cores.push_back({CpuSet{Pu{i}, Pu{i + 8}}, Node{0}, 0, 0});
  home.mems = NodeSet{Node{0}};
  Evidence evidence;
  evidence.candidates = {measured(0, 3, 500)};
  evidence.candidates[0].pool_threads = 6;
  evidence.candidates[0].reserved_cores = 2;
  evidence.candidates[0].idle_cores = 3;
  const auto splits = trial_splits(plan_of(evidence), {home}, 1);
  const RankSplit& rank = splits.front().split.ranks.front();
  EXPECT_EQ(rank.pool.size(), 6U);
  EXPECT_EQ(rank.reserved_cores, 2);
  EXPECT_EQ(rank.idle_cores, 3);
}

TEST(TrialSplits, ASharedHomeComesBackAsOne) {
  Evidence evidence;
  evidence.candidates = {measured(0, 3, 500), measured(1, 3, 600)};
  evidence.candidates[0].reserved_cores = 0;
  const auto splits = trial_splits(plan_of(evidence), {home_of(8)}, 2);
  EXPECT_TRUE(splits[0].split.shape.shared);
  EXPECT_EQ(splits[0].split.label, "shared home, pool 3, compact");
  EXPECT_TRUE(splits[0].split.ranks.front().shared);
  EXPECT_EQ(splits[0].split.ranks.front().training.size(), 8U);
  EXPECT_EQ(splits[1].split.label, "shared home, pool 1, compact");
}

TEST(TrialSplits, TheControlThatSharesTheHomeComesBackAsThat) {
  Evidence evidence;
  evidence.candidates = {measured(0, 8, 500)};
  evidence.candidates[0].control = Control::shared;
  const auto splits = trial_splits(plan_of(evidence), {home_of(8)}, 1);
  EXPECT_EQ(labels(splits), (std::vector<std::string>{"shared home", "half and half", "80/20", "unbound"}));
  EXPECT_TRUE(splits[0].split.ranks.front().shared);
  EXPECT_EQ(splits[0].split.ranks.front().pool.size(), 8U);
}

TEST(TrialSplits, ThePlansOwnSplitComesFirst) {
  Plan plan;
  plan.evidence.candidates = {measured(0, 3, 500), measured(1, 2, 510), measured(2, 5, 600)};
  plan.choice.candidate = 2;
  const auto splits = trial_splits(plan, {home_of(8)}, 2);
  EXPECT_THAT(labels(splits), ElementsAre("pool 5, compact", "pool 3, compact", "pool 1, compact",
                                          "shared home", "half and half", "80/20", "unbound"));
  EXPECT_EQ(splits.front().evidence_id, 2);
}

TEST(TrialSplits, ByDefaultThePlansOwnSplitPushesNoSizeOfTheFastestOut) {
  Plan plan;
  plan.evidence.candidates = {measured(0, 3, 500), measured(1, 2, 510), measured(2, 5, 600)};
  plan.choice.candidate = 2;
  EXPECT_THAT(labels(trial_splits(plan, {home_of(16)}, kDefaultTrialSizes)),
              ElementsAre("pool 5, compact", "pool 3, compact", "pool 1, compact", "pool 6, compact",
                          "pool 12, compact", "shared home", "half and half", "80/20", "unbound"));
  plan.choice.candidate = 0;
  EXPECT_THAT(labels(trial_splits(plan, {home_of(16)}, kDefaultTrialSizes)),
              ElementsAre("pool 3, compact", "pool 1, compact", "pool 6, compact", "pool 12, compact",
                          "shared home", "half and half", "80/20", "unbound"))
      << "nothing comes in the place of the plan's own split, which is one of the sizes";
}

TEST(TrialSplits, APlanWithASharedHomePushesNoSizeOfTheFastestOut) {
  Plan plan;
  plan.evidence.candidates = {measured(0, 3, 500), measured(1, 8, 600)};
  plan.evidence.candidates[1].control = Control::shared;
  plan.choice.candidate = 1;
  EXPECT_THAT(labels(trial_splits(plan, {home_of(16)}, kDefaultTrialSizes)),
              ElementsAre("shared home", "pool 3, compact", "pool 1, compact", "pool 6, compact",
                          "pool 12, compact", "half and half", "80/20", "unbound"));
}

TEST(TrialSplits, APlanThatNobodyMeasuredIsTriedToo) {
  Plan plan;
  plan.intent.pool_cores = 3;
  EXPECT_EQ(labels(trial_splits(plan, {home_of(8)}, 1)).front(), "pool 3, compact");
  plan.intent.pool_cores = 8;
  plan.intent.shared = true;
  EXPECT_EQ(labels(trial_splits(plan, {home_of(8)}, 1)).front(), "shared home") << "so the control is there";
}

TEST(TrialSplits, NoFrameworkButOursIsTriedOnAPartOfASharedHome) {
  Plan plan;
  plan.evidence.candidates = {measured(0, 4, 500), measured(1, 2, 400), measured(2, 3, 600)};
  plan.evidence.candidates[0].reserved_cores = plan.evidence.candidates[1].reserved_cores = 0;
  plan.workload.framework = Framework::deepspeed_zenflow;
  EXPECT_THAT(
      labels(trial_splits(plan, {home_of(8)}, 2)),
      ElementsAre("pool 3, compact", "pool 1, compact", "shared home", "half and half", "80/20", "unbound"));
  plan.workload.framework = Framework::native;
  EXPECT_EQ(labels(trial_splits(plan, {home_of(8)}, 2)).front(), "shared home, pool 2, compact");
}

TEST(TrialSplits, AJobThatStepsInItsTrainingProcessRunsOncePerBinding) {
  Plan plan;
  plan.evidence.candidates = {measured(0, 3, 500)};
  const auto splits = trial_splits(plan, {home_of(8), home_of(8)}, 4);
  for (const Framework framework : {Framework::torch, Framework::deepspeed_offload}) {
    const auto kept = without_equal_jobs(splits, framework);
    EXPECT_THAT(labels(kept), ElementsAre("pool 3, compact", "unbound"));
    EXPECT_THAT(reach_of_splits(framework, kept), HasSubstr("only \"pool 3, compact\" is compared"));
  }
  for (const Framework framework :
       {Framework::native, Framework::deepspeed_zenflow, Framework::superoffload, Framework::unknown}) {
    EXPECT_EQ(labels(without_equal_jobs(splits, framework)), labels(splits)) << name_of(framework);
    EXPECT_EQ(reach_of_splits(framework, splits).empty(), framework == Framework::native);
  }
}

TEST(TrialSplits, SeveralRanksNeedALauncherThatBindsThem) {
  EXPECT_THAT(launcher_warning({"torchrun", "train.py"}, 2), HasSubstr("does not name zf-tune exec"));
  EXPECT_EQ(launcher_warning({"train.py"}, 1), "");
  EXPECT_EQ(launcher_warning({"torchrun", "--no-python", "/opt/zf-tune", "exec", "--", "train.py"}, 2), "");
  EXPECT_EQ(launcher_warning({"sh", "-c", "srun zf-tune exec -- train.py"}, 2), "");
}

}  // namespace
}  // namespace zf
