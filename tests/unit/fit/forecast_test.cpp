#include "fit/forecast.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "fit_jobs.hpp"
#include "measured_jobs.hpp"

namespace zf {
namespace {

/// Returns whether our optimizer steps: the forecasts of others may be a little worse.
bool is_ours(StepMethod stepper) {
  return stepper == StepMethod::in_place || stepper == StepMethod::fsdp2_in_place ||
         stepper == StepMethod::native;
}

/// Returns the job that was measured.
FitJob job_of(const MeasuredJob& measured) {
  FitJob job;
  job.model = measured_model(measured.blocks, measured.change);
  job.set(FitExtra::fp32_accumulation, measured.change == "sums");
  job.stepper = measured.stepper;
  job.stage = measured.stage;
  job.mode = measured.mode;
  job.type = measured.type;
  job.state = measured.state;
  job.ranks = measured.ranks;
  job.device = Device::cpu;
  return job;
}

TEST(MemoryForecast, IsWithinThreePercentOfEachPhaseOfOursAndFiveOfOthers) {
  ASSERT_GE(std::size(kMeasuredJobs), 24U);
  for (const MeasuredJob& measured : kMeasuredJobs) {
    const FitJob job = job_of(measured);
    ASSERT_EQ(why_no_such_job(job), std::nullopt) << measured.name;
    const MemoryForecast forecast = forecast_of(job);
    // Of small gradients malloc keeps more than a forecast knows (docs/memory.md).
    const double peak = static_cast<double>(*std::max_element(measured.bytes.begin(), measured.bytes.end()));
    const bool has_small_gradients = job.model.trainable < job.model.params;
    for (std::size_t phase = 0; phase < kFitPhases; ++phase) {
      const auto found = static_cast<double>(measured.bytes[phase]);
      EXPECT_NEAR(static_cast<double>(forecast.phases[phase].bytes), found,
                  has_small_gradients ? 0.08 * peak : (is_ours(job.stepper) ? 0.03 : 0.05) * found)
          << measured.name << " " << name_of(static_cast<FitPhase>(phase));
    }
  }
}

TEST(MemoryForecast, EachPhaseIsTheSumOfItsItems) {
  for (const FitJob& job : all_jobs(1'000'000'000)) {
    for (const PhaseMemory& phase : forecast_of(job).phases) {
      std::uint64_t sum = 0;
      for (const std::uint64_t bytes : phase.items) sum += bytes;
      EXPECT_EQ(sum, phase.bytes) << in_words(job);
      EXPECT_GT(phase.bytes, 0U) << in_words(job);
    }
  }
}

TEST(MemoryForecast, ALargerModelNeverNeedsLess) {
  const auto small = all_jobs(1'000'000'000), large = all_jobs(1'300'000'000);
  ASSERT_EQ(small.size(), large.size());
  ASSERT_GT(small.size(), 200U);
  for (std::size_t i = 0; i < small.size(); ++i) {
    for (std::size_t phase = 0; phase < kFitPhases; ++phase)
      EXPECT_GE(forecast_of(large[i]).phases[phase].bytes, forecast_of(small[i]).phases[phase].bytes)
          << in_words(small[i]);
  }
}

TEST(MemoryForecast, MoreNodesNeverNeedMoreOnEach) {
  for (FitJob job : all_jobs(70'000'000'000)) {
    const std::uint64_t before = forecast_of(job).peak_bytes();
    job.nodes *= 2;
    EXPECT_LE(forecast_of(job).peak_bytes(), before) << in_words(job);
  }
}

TEST(MemoryForecast, ZerosHostMemoryIsDividedByAllRanksAlsoInStage2) {
  FitJob job;
  job.model = usual_model(8'000'000'000);
  job.stage = 2;
  const auto steady = [&] { return forecast_of(job).at(FitPhase::steady).of(FitItem::moments); };
  EXPECT_EQ(steady(), 64'000'000'000U);
  job.ranks = 8;
  EXPECT_EQ(steady(), 64'000'000'000U) << "the ranks of one node hold all of it together";
  job.nodes = 4;
  EXPECT_EQ(steady(), 16'000'000'000U);
}

TEST(MemoryForecast, OneRankAloneCopiesTheModelFromItsGpuToSaveIt) {
  FitJob job;
  job.model = usual_model(8'000'000'000);
  job.stage = 2;
  job.ranks = 8;
  const MemoryForecast forecast = forecast_of(job);
  EXPECT_EQ(forecast.at(FitPhase::checkpoint).bytes - forecast.at(FitPhase::steady).bytes, 16'000'000'000U);
  job.device = Device::cpu;
  EXPECT_EQ(forecast_of(job).at(FitPhase::checkpoint).of(FitItem::conversion), 0U);
}

TEST(MemoryForecast, FrozenParametersHaveNoState) {
  FitJob job;
  job.model = usual_model(8'000'000'000);
  job.model.trainable = 100'000'000;
  job.stage = 2;
  job.ranks = 8;
  const MemoryForecast forecast = forecast_of(job);
  EXPECT_EQ(forecast.at(FitPhase::steady).of(FitItem::moments), 800'000'000U);
  EXPECT_EQ(forecast.at(FitPhase::start).of(FitItem::model), 8U * 2 * 8'000'000'000)
      << "each rank makes all of the model";
}

TEST(MemoryForecast, AStepInBackwardHasOneGradientAtATime) {
  FitJob job;
  job.model = measured_model(6);
  job.type = ParameterType::fp32;
  job.stepper = StepMethod::in_place;
  job.device = Device::cpu;
  const MemoryForecast all = forecast_of(job);
  EXPECT_EQ(all.at(FitPhase::steady).of(FitItem::gradients), 4 * job.model.trainable);
  job.mode = Mode::backward;
  const MemoryForecast one = forecast_of(job);
  EXPECT_EQ(one.at(FitPhase::steady).of(FitItem::gradients), 4 * job.model.largest);
  EXPECT_EQ(one.at(FitPhase::checkpoint).of(FitItem::gradients), 0U);
  job.ranks = 2;
  EXPECT_THAT(why_no_such_job(job).value(), testing::HasSubstr("is for one rank"));
}

TEST(MemoryForecast, ALargeParameterThatIsFrozenHasNoTemporaries) {
  for (const StepMethod stepper : {StepMethod::deepspeed_offload, StepMethod::native}) {
    for (int stage = 0; stage <= 2; ++stage) {
      FitJob job;
      job.model = usual_model(8'000'000'000);
      job.model.trainable = 10'000'000;
      job.stepper = stepper;
      job.stage = stage;
      job.device = Device::cpu;
      if (why_no_such_job(job)) continue;
      const std::uint64_t before = forecast_of(job).peak_bytes();
      job.model.largest = 2 * job.model.trainable;
      EXPECT_EQ(forecast_of(job).peak_bytes(), before) << in_words(job);
      job.model.largest = job.model.trainable / 2;
      EXPECT_LT(forecast_of(job).peak_bytes(), before) << in_words(job);
    }
  }
}

TEST(MemoryForecast, SumsInFp32AreOnTheHostInStage3AndWithoutGpu) {
  FitJob job;
  job.model = usual_model(1'000'000'000);
  for (int stage = 1; stage <= 3; ++stage) {
    job.stage = stage;
    job.set(FitExtra::fp32_accumulation, false);
    const MemoryForecast plain = forecast_of(job);
    job.set(FitExtra::fp32_accumulation, true);
    ASSERT_EQ(why_no_such_job(job), std::nullopt);
    const std::uint64_t more = stage == 3 ? 2'000'000'000 : 0;  // fp32 instead of bf16
    EXPECT_EQ(forecast_of(job).at(FitPhase::steady).bytes - plain.at(FitPhase::steady).bytes, more) << stage;
    job.device = Device::cpu;
    const std::uint64_t gradients = forecast_of(job).at(FitPhase::steady).of(FitItem::gradients);
    EXPECT_EQ(gradients, stage == 1 ? 6'000'000'000U : stage == 2 ? 5'000'000'000U : 1'000'000'000U) << stage;
    job.device = Device::gpu;
  }
  job.type = ParameterType::fp32;
  EXPECT_NE(why_no_such_job(job), std::nullopt) << "they are of this type already";
}

TEST(MemoryForecast, EachRankCopiesFrozenParametersFromItsGpuAndReadsThemTwice) {
  FitJob job;
  job.model = usual_model(8'000'000'000);
  job.device = Device::gpu;
  job.stage = 2;
  job.ranks = 8;
  job.model.trainable = 100'000'000;
  const std::uint64_t frozen = 2 * 7'900'000'000;
  const MemoryForecast some = forecast_of(job);
  EXPECT_EQ(some.at(FitPhase::checkpoint).of(FitItem::conversion), 2U * 100'000'000 + 8 * frozen)
      << "one rank writes the trained ones";
  EXPECT_EQ(some.at(FitPhase::resume).of(FitItem::loaded), 8 * (2 * 8'000'000'000 + frozen));
  job.stage = 3;
  EXPECT_EQ(forecast_of(job).at(FitPhase::checkpoint).of(FitItem::conversion), frozen)
      << "each has its shard";
  job.stage = 1;
  EXPECT_EQ(forecast_of(job).at(FitPhase::resume).of(FitItem::loaded), 8U * 2 * 8'000'000'000);
}

TEST(MemoryForecast, TheReserveIsThatOfEachRank) {
  FitJob job;
  job.model = usual_model(1000);
  job.stage = 2;
  job.ranks = 8;
  job.process_bytes = 1'000'000;
  for (const PhaseMemory& phase : forecast_of(job).phases) EXPECT_EQ(phase.of(FitItem::process), 8'000'000U);
}

TEST(MemoryForecast, PinnedBlocksAreRoundedUpToPowersOfTwo) {
  FitJob job;
  job.model = usual_model(1'000'000'000);
  job.stage = 2;
  job.pinned = true;
  // 4, 4 and 2 GB become 4, 4 and 2 GiB.
  constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;
  EXPECT_EQ(forecast_of(job).at(FitPhase::steady).of(FitItem::pinning), 10 * kGiB - 10'000'000'000);
  EXPECT_EQ(forecast_of(job).pinned_bytes, 10 * kGiB);
  job.stepper = StepMethod::native;
  EXPECT_EQ(forecast_of(job).at(FitPhase::steady).of(FitItem::pinning), 0U)
      << "the arena is registered as it is";
}

TEST(MemoryForecast, SumsOfGradientsAreAnotherPartitionInStages1And2) {
  FitJob job;
  job.model = usual_model(1'000'000'000);
  job.ranks = 2;
  job.pinned = true;
  FitJob sums = job;
  sums.set(FitExtra::accumulation, true);
  for (int stage = 1; stage <= 3; ++stage) {
    job.stage = sums.stage = stage;
    const std::uint64_t more = stage == 3 ? 0 : 2'000'000'000;
    ASSERT_EQ(why_no_such_job(sums), std::nullopt);
    for (const FitPhase phase : {FitPhase::steady, FitPhase::checkpoint})
      EXPECT_EQ(forecast_of(sums).at(phase).bytes - forecast_of(job).at(phase).bytes, more) << stage;
    EXPECT_EQ(forecast_of(sums).pinned_bytes - forecast_of(job).pinned_bytes, more) << stage;
    EXPECT_EQ(forecast_of(sums).at(FitPhase::start).bytes, forecast_of(job).at(FitPhase::start).bytes);
  }
}

TEST(MemoryForecast, AModelThatIsFlattenedOnTheHostIsThereTwice) {
  FitJob job;
  job.model = usual_model(8'000'000'000);
  job.stage = 2;
  job.ranks = 8;
  EXPECT_EQ(forecast_of(job).at(FitPhase::start).bytes, 8U * 16'000'000'000);
  job.set(FitExtra::host_flatten, true);
  EXPECT_EQ(forecast_of(job).at(FitPhase::start).bytes, 8U * 32'000'000'000);
  job.device = Device::cpu;
  EXPECT_NE(why_no_such_job(job), std::nullopt);
}

TEST(MemoryForecast, ALogForStepsThatBeginInBackwardIsTwoBytesAndAQuarterAParameter) {
  FitJob job;
  job.model = usual_model(1'000'000'000);
  job.stepper = StepMethod::native;
  job.mode = Mode::exact;
  FitJob speculates;
  for (const int stage : {0, 1, 2, 3}) {
    job.stage = stage;
    speculates = job;
    speculates.set(FitExtra::speculate, true);
    ASSERT_EQ(why_no_such_job(speculates), std::nullopt) << stage;
    const std::uint64_t more =
        forecast_of(speculates).at(FitPhase::steady).bytes - forecast_of(job).at(FitPhase::steady).bytes;
    EXPECT_NEAR(static_cast<double>(more), 2.25e9, 1e7) << stage;
  }
  speculates.mode = Mode::wait;
  EXPECT_NE(why_no_such_job(speculates), std::nullopt);
}

TEST(MemoryForecast, AnExportBesideTheTrainingKeepsACopyOfTheState) {
  FitJob job;
  job.model = usual_model(1'000'000'000);
  job.stepper = StepMethod::native;
  FitJob exports = job;
  exports.set(FitExtra::exports, true);
  ASSERT_EQ(why_no_such_job(exports), std::nullopt);
  for (const FitPhase phase : {FitPhase::checkpoint, FitPhase::steady}) {
    EXPECT_EQ(forecast_of(exports).at(phase).bytes - forecast_of(job).at(phase).bytes,
              12 * job.model.trainable);
  }
  exports.stage = 2;
  EXPECT_NE(why_no_such_job(exports), std::nullopt);
}

TEST(MemoryForecast, OffloadedParametersAreInOneBlockThatIsPinned) {
  FitJob job;
  job.model = usual_model(1'000'000'000);
  job.stage = 3;
  FitJob offloads = job;
  offloads.set(FitExtra::offload_param, true);
  constexpr std::uint64_t kBlock = std::uint64_t{2} << 30;
  EXPECT_EQ(forecast_of(offloads).at(FitPhase::steady).bytes - forecast_of(job).at(FitPhase::steady).bytes,
            kBlock);
  EXPECT_EQ(forecast_of(offloads).pinned_bytes, kBlock);
  job.pinned = offloads.pinned = true;
  EXPECT_EQ(forecast_of(offloads).at(FitPhase::steady).bytes - forecast_of(job).at(FitPhase::steady).bytes,
            kBlock + 2'000'000'000)
      << "torch keeps the pinned blocks that they were in before";
}

TEST(MemoryForecast, ZenFlowsOverlapKeepsTwoSetsOfMomentsAndSharesSixteenBytesAParameter) {
  FitJob job;
  job.model = usual_model(1'000'000'000);
  job.stepper = StepMethod::deepspeed_zenflow;
  job.stage = 2;
  const MemoryForecast waits = forecast_of(job);
  EXPECT_EQ(waits.shared_memory_bytes, 0U);
  job.mode = Mode::overlap;
  const MemoryForecast overlaps = forecast_of(job);
  EXPECT_EQ(overlaps.at(FitPhase::steady).of(FitItem::moments), 16'000'000'000U);
  EXPECT_EQ(overlaps.shared_memory_bytes, 16'000'000'000U);
  EXPECT_EQ(overlaps.at(FitPhase::steady).bytes - waits.at(FitPhase::steady).bytes, 16'000'000'000U);
  EXPECT_TRUE(what_is_from_source(job).has_value());
}

TEST(MemoryForecast, OnlyWhatWasMeasuredIsCalledSo) {
  std::vector<std::string> runs;
  for (const MeasuredJob& measured : kMeasuredJobs) {
    const FitJob job = job_of(measured);
    runs.push_back(kind_of(job));
    EXPECT_EQ(what_is_from_source(job), std::nullopt) << measured.name;
  }
  const auto was_run = [&](const std::string& kind) {
    return std::find(runs.begin(), runs.end(), kind) != runs.end();
  };
  for (const std::string& kind : measured_kinds()) EXPECT_TRUE(was_run(kind)) << kind;
  for (FitJob job : all_jobs(1'000'000'000)) {
    for (const auto& [ranks, nodes] : {std::pair{1, 1}, std::pair{2, 1}, std::pair{1, 2}}) {
      job.ranks = ranks;
      job.nodes = nodes;
      const bool was_so = job.device == Device::cpu && job.load == Load::whole && !job.pinned && nodes == 1;
      EXPECT_EQ(what_is_from_source(job).has_value(), !(was_so && was_run(kind_of(job))))
          << in_words(job) << ", ranks " << ranks << ", nodes " << nodes;
    }
  }
}

TEST(FitJob, WhatDoesNotGoTogetherIsNamed) {
  FitJob job;
  job.stage = 0;
  EXPECT_THAT(why_no_such_job(job).value(), testing::HasSubstr("needs a ZeRO stage"));
  job.stage = 2;
  job.state = StateFormat::bf16;
  EXPECT_THAT(why_no_such_job(job).value(), testing::HasSubstr("zf_runtime's alone"));
  job.stepper = StepMethod::native;
  EXPECT_EQ(why_no_such_job(job), std::nullopt);
  job.state = StateFormat::split;
  EXPECT_THAT(why_no_such_job(job).value(), testing::HasSubstr("fp32 and bf16, and not split"));
  job.stage = 0;
  EXPECT_EQ(why_no_such_job(job), std::nullopt);
  job.type = ParameterType::fp32;
  EXPECT_THAT(why_no_such_job(job).value(), testing::HasSubstr("for bf16 parameters"));
}

}  // namespace
}  // namespace zf
