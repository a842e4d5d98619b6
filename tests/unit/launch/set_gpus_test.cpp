#include "launch/launch_parts.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gpus/spread.hpp"

namespace zf {
namespace {

using Variables = std::map<std::string, std::string>;

/// Returns a plan of node17 for ranks with the GPUs 0, 1, … and these to spread them.
Plan plan_with(int ranks, const std::vector<int>& spread = {}) {
  const auto gpu = [](int number) {
    RankGpu one{"0000:0" + std::to_string(number) + ":00.0"};
    one.uuid = "GPU-" + std::to_string(number) + "-abc";
    one.cuda_number = number;
    return one;
  };
  Plan plan;
  plan.made.host = "node17";
  for (int rank = 0; rank < ranks; ++rank) {
    plan.ranks.emplace_back().rank = rank;
    plan.ranks.back().gpu = gpu(rank);
    if (!spread.empty()) plan.ranks.back().spread_gpu = gpu(spread[static_cast<std::size_t>(rank)]);
  }
  return plan;
}

GpuSetting set(const Plan& plan, const Variables& variables = {}, const char* host = "node17") {
  return gpu_setting(plan, static_cast<int>(plan.ranks.size()), host, Environment(variables));
}

TEST(SetGpus, ShowsThePlansGpusInTheOrderOfTheRanks) {
  const GpuSetting setting = set(plan_with(2));
  EXPECT_EQ(setting.variables, (Variables{{"CUDA_VISIBLE_DEVICES", "GPU-0-abc,GPU-1-abc"}}));
  EXPECT_EQ(setting.note, "CUDA_VISIBLE_DEVICES=GPU-0-abc,GPU-1-abc for all ranks");
  EXPECT_FALSE(setting.spreads);
  Plan several = plan_with(2);
  several.intent.gpus_per_rank = 2;
  for (RankBinding& rank : several.ranks) {
    rank.more_gpus = {*rank.gpu};
    rank.more_gpus[0].uuid += "d";
  }
  EXPECT_EQ(set(several).variables.at("CUDA_VISIBLE_DEVICES"), "GPU-0-abc,GPU-0-abcd,GPU-1-abc,GPU-1-abcd");
}

TEST(SetGpus, UuidsAreThoseOfTheHostOfThePlan) {
  EXPECT_EQ(set(plan_with(2), {}, "node18").variables,
            (Variables{{"CUDA_DEVICE_ORDER", "PCI_BUS_ID"}, {"CUDA_VISIBLE_DEVICES", "0,1"}}));
  EXPECT_EQ(
      set(plan_with(2), {{"CUDA_DEVICE_ORDER", "FASTEST_FIRST"}}, "node18").note,
      "--set-gpus sets nothing: CUDA_DEVICE_ORDER=FASTEST_FIRST is kept, and the plan's numbers are in PCI "
      "order");
}

TEST(SetGpus, SpreadsTheRanksAsThePlanOffers) {
  const Plan plan = plan_with(2, {0, 4});
  const GpuSetting setting = set(plan);
  EXPECT_EQ(setting.variables.at("CUDA_VISIBLE_DEVICES"), "GPU-0-abc,GPU-4-abc");
  EXPECT_TRUE(setting.spreads);
  EXPECT_EQ(
      setting.note,
      "CUDA_VISIBLE_DEVICES=GPU-0-abc,GPU-4-abc for all ranks: their GPUs are spread over the packages, and "
      "the homes are near them");
  const Plan spread = with_spread_gpus(plan);
  EXPECT_EQ(spread.ranks[1].gpu, plan.ranks[1].spread_gpu);
  EXPECT_FALSE(spread.ranks[1].spread_gpu);
}

TEST(SetGpus, AVariableThatIsSetIsKept) {
  for (const char* const name : {"CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES",
                                 "SLURM_STEP_GPUS", "SLURM_JOB_GPUS"}) {
    const GpuSetting setting = set(plan_with(2, {0, 4}), {{name, "6,7"}});
    EXPECT_TRUE(setting.variables.empty()) << name;
    EXPECT_FALSE(setting.spreads) << name;
    EXPECT_EQ(setting.note, "--set-gpus sets nothing: " + std::string(name) + "=6,7 is kept");
  }
}

TEST(SetGpus, WhatIsNotKnownIsNotSet) {
  const auto why = [](const Plan& plan) {
    EXPECT_TRUE(set(plan).variables.empty());
    return set(plan).note;
  };
  Plan unknown = plan_with(2);
  unknown.ranks[1].gpu.reset();
  EXPECT_EQ(why(unknown), "--set-gpus sets nothing: the plan does not say which GPU each rank has");
  Plan older = plan_with(2);
  for (RankBinding& rank : older.ranks) rank.gpu->cuda_number.reset();
  EXPECT_THAT(why(older), testing::HasSubstr("`zf-tune plan --from` adds them"));
  Plan shared = plan_with(2);
  shared.intent.ranks_per_gpu = 2;
  EXPECT_EQ(why(shared), "--set-gpus sets nothing: by the plan several ranks have one GPU");
  EXPECT_EQ(gpu_setting(plan_with(2), 3, "node17", {}).note,
            "--set-gpus sets nothing: the plan is for 2 ranks, and 3 run here");
}

}  // namespace
}  // namespace zf
