#include "fit/verdict.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/cpu_list.hpp"
#include "base/error.hpp"
#include "fit/fit_report.hpp"
#include "fit/workload_job.hpp"
#include "fit_jobs.hpp"

namespace zf {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

Machine machine(const std::string& topology, std::optional<NodeSet> mems = {}) {
  MachineSource source;
  source.topology = topology;
  source.mems = mems;
  return read_machine(source);
}

NodeLimits limits_of_bytes(std::uint64_t bytes) { return {.capacity = {bytes, "a test"}}; }

FitJob zero_2(std::uint64_t params) {
  FitJob job;
  job.model = usual_model(params);
  job.stage = 2;
  return job;
}

TEST(Limits, OfATopologyAloneAreTheMemoryOfItsNodes) {
  const NodeLimits limits = limits_of(machine("pack:2 [numa(memory=64GiB)] core:4 pu:1"), {});
  EXPECT_EQ(limits.capacity.bytes, 128 * kGiB);
  EXPECT_EQ(limits.nodes.size(), 2U);
}

TEST(Limits, NodesThatAreNotAllowedGiveNothing) {
  const Machine part = machine("pack:2 [numa(memory=64GiB)] core:4 pu:1", parse_node_list("1", "test"));
  const NodeLimits limits = limits_of(part, {.available = 100 * kGiB});
  EXPECT_EQ(limits.capacity.bytes, 64 * kGiB);
  EXPECT_THAT(limits.capacity.limit, HasSubstr("allowed NUMA nodes (1)"));
}

TEST(Limits, NodesThatAMemoryPolicyExcludesGiveNothing) {
  const Machine both = machine("pack:2 [numa(memory=64GiB)] core:4 pu:1");
  const NodeSet second = parse_node_list("1", "test");
  for (const GivenPolicy policy : {GivenPolicy::bind, GivenPolicy::interleave}) {
    const NodeLimits limits = limits_of(both, {.available = 100 * kGiB}, ThreadPolicy{policy, second});
    EXPECT_EQ(limits.capacity.bytes, 64 * kGiB);
    EXPECT_THAT(limits.capacity.limit, HasSubstr("allowed NUMA nodes (1, by the memory policy)"));
    EXPECT_EQ(limits.nodes.size(), 1U);
  }
  for (const GivenPolicy policy : {GivenPolicy::preferred, GivenPolicy::local}) {
    const NodeLimits limits = limits_of(both, {.available = 100 * kGiB}, ThreadPolicy{policy, second});
    EXPECT_EQ(limits.capacity.bytes, 100 * kGiB) << "a full node is no limit";
  }
}

TEST(Limits, TheSmallestCounts) {
  Machine here = machine("pack:1 [numa(memory=64GiB)] core:4 pu:1");
  EXPECT_EQ(limits_of(here, {.available = 50 * kGiB}).capacity.limit, "MemAvailable of /proc/meminfo");
  here.allowed.memory_bytes = 40 * kGiB;
  here.allowed.memory_path = "/sys/fs/cgroup/job/memory.max";
  const NodeLimits limits = limits_of(here, {.available = 50 * kGiB, .cgroup_used = 3 * kGiB});
  EXPECT_EQ(limits.capacity.bytes, 37 * kGiB);
  EXPECT_EQ(limits.capacity.limit, "/sys/fs/cgroup/job/memory.max");
  EXPECT_EQ(limits_of(here, {.available = 50 * kGiB, .commit_left = 10 * kGiB}).capacity.bytes, 10 * kGiB);
}

TEST(Limits, AMachineOfUnknownMemoryIsRefused) {
  Machine unknown = machine("pack:1 core:2 pu:1");
  for (NumaNode& node : unknown.topology.nodes) node.memory_bytes = 0;
  EXPECT_THROW(limits_of(unknown, {}), Error);
}

TEST(FitVerdict, IsOneLine) {
  const FitJob job = zero_2(1'000'000'000);
  const MemoryForecast forecast = forecast_of(job);
  EXPECT_EQ(in_words(verdict_of(job, forecast, limits_of_bytes(100 * kGiB))),
            "fits: 21.0 of 100 GiB at resume");
  EXPECT_EQ(in_words(verdict_of(job, forecast, limits_of_bytes(11 * kGiB))),
            "does not fit: short of 10.0 GiB at resume (21.0 of 11.0 GiB)");
}

TEST(FitVerdict, AJobAtItsLimitIsCalledTight) {
  const FitJob job = zero_2(1'000'000'000);
  const MemoryForecast forecast = forecast_of(job);
  const std::uint64_t peak = forecast.peak_bytes();
  EXPECT_TRUE(verdict_of(job, forecast, limits_of_bytes(peak)).fits);
  EXPECT_FALSE(verdict_of(job, forecast, limits_of_bytes(peak - 1)).fits);
  EXPECT_THAT(verdict_of(job, forecast, limits_of_bytes(peak)).problems, ElementsAre(HasSubstr("tight")));
  EXPECT_THAT(verdict_of(job, forecast, limits_of_bytes(peak + peak / 10)).problems, testing::IsEmpty());
}

TEST(FitVerdict, ASharedMemoryFolderThatIsTooSmallStopsZenFlow) {
  FitJob job = zero_2(1'000'000'000);
  job.stepper = StepMethod::deepspeed_zenflow;
  job.mode = Mode::overlap;
  NodeLimits limits = limits_of_bytes(500 * kGiB);
  limits.more.shared_memory = 8 * kGiB;
  const FitVerdict verdict = verdict_of(job, forecast_of(job), limits);
  EXPECT_FALSE(verdict.fits);
  EXPECT_THAT(in_words(verdict), HasSubstr("/dev/shm is too small"));
  EXPECT_THAT(verdict.problems,
              ElementsAre(HasSubstr("/dev/shm has room for 8.0 GiB, and this job keeps 14.9 GiB")));
  limits.more.shared_memory = 20 * kGiB;
  EXPECT_TRUE(verdict_of(job, forecast_of(job), limits).fits);
  limits.more = {.shared_memory_is_missing = true};
  EXPECT_FALSE(verdict_of(job, forecast_of(job), limits).fits);
}

TEST(FitVerdict, ANodeTooSmallForItsRanksIsNamed) {
  FitJob job = zero_2(10'000'000'000);
  job.ranks = 2;
  NodeLimits limits = limits_of_bytes(300 * kGiB);
  limits.nodes = {{Node{0}, 64 * kGiB}, {Node{1}, 236 * kGiB}};
  const FitVerdict verdict = verdict_of(job, forecast_of(job), limits);
  EXPECT_TRUE(verdict.fits);
  EXPECT_THAT(verdict.problems,
              ElementsAre(HasSubstr("NUMA node 0 has 64.0 GiB, and a rank near it needs 104 GiB")));
}

TEST(FitVerdict, LockedMemoryAndHugePagesAreNotes) {
  FitJob job = zero_2(1'000'000'000);
  job.pinned = true;
  NodeLimits limits = limits_of_bytes(100 * kGiB);
  limits.more = {.locked_memory = kGiB, .huge_pages = 4 * kGiB};
  const FitVerdict verdict = verdict_of(job, forecast_of(job), limits);
  EXPECT_TRUE(verdict.fits);
  EXPECT_THAT(verdict.problems, ElementsAre(HasSubstr("10.0 GiB are pinned, and 1.0 GiB may be locked"),
                                            HasSubstr("4.0 GiB are reserved as huge pages")));
}

TEST(FitVerdict, Fsdp2PinsItsGradientsToo) {
  FitJob job;
  job.model = usual_model(1'000'000'000);
  job.stepper = StepMethod::fsdp2;
  job.pinned = true;
  EXPECT_EQ(forecast_of(job).pinned_bytes, 4'000'000'000U) << "2 GB of parameters, 2 GB of gradients";
  job.model.trainable = 100'000'000;
  EXPECT_EQ(forecast_of(job).pinned_bytes, 2'200'000'000U);
}

TEST(Advice, TheLargestSavingComesFirstAndEachIsTrue) {
  for (const FitJob& job : all_jobs(7'000'000'000)) {
    const std::uint64_t peak = forecast_of(job).peak_bytes();
    std::uint64_t last = UINT64_MAX;
    for (const Change& change : changes_that_help(job, limits_of_bytes(100 * kGiB))) {
      EXPECT_EQ(why_no_such_job(change.job), std::nullopt) << change.what;
      EXPECT_EQ(peak - forecast_of(change.job).peak_bytes(), change.saves) << change.what;
      EXPECT_GE(change.saves, peak / 100) << change.what;
      EXPECT_LE(change.saves, last) << change.what;
      EXPECT_EQ(change.is_enough, forecast_of(change.job).peak_bytes() <= 100 * kGiB) << change.what;
      last = change.saves;
    }
  }
}

TEST(Advice, TheLargestModelFitsAndOneOfAHundredthMoreDoesNot) {
  for (const FitJob& job : all_jobs(7'000'000'000)) {
    const NodeLimits limits = limits_of_bytes(100 * kGiB);
    const std::uint64_t params = largest_model(job, limits);
    FitJob other = job;
    other.model = usual_model(params);
    EXPECT_LE(forecast_of(other).peak_bytes(), 100 * kGiB) << in_words(job);
    other.model = usual_model(params + params / 100);
    EXPECT_GT(forecast_of(other).peak_bytes(), 100 * kGiB) << in_words(job);
  }
}

TEST(Advice, NoModelFitsWhereTheProcessesDoNot) {
  FitJob job = zero_2(1000);
  job.process_bytes = kGiB;
  EXPECT_EQ(largest_model(job, limits_of_bytes(kGiB / 2)), 0U);
}

TEST(MemoryShortage, IsThatOfEveryFrameworkAndNeverOfAJobThatFits) {
  for (const auto& [framework, name] : kEnumNames<Framework>) {
    for (const auto& [mode, mode_name] : kEnumNames<Mode>) {
      for (const auto& [state, state_name] : kEnumNames<StateFormat>) {
        Workload workload{"w", 1'000'000'000, 4, 1};
        workload.framework = framework;
        workload.mode = mode;
        EXPECT_EQ(why_no_such_job(least_job_of(workload, state)), std::nullopt) << name << " " << mode_name;
        EXPECT_EQ(memory_shortage(workload, state, limits_of_bytes(40 * kGiB)), std::nullopt) << name;
        EXPECT_NE(forecast_of(least_job_of(workload, state)).worst(), FitPhase::start) << name;
        EXPECT_THAT(memory_shortage(workload, state, limits_of_bytes(7 * kGiB)).value(),
                    HasSubstr("1B parameters need at least"))
            << name;
      }
    }
  }
}

TEST(MemoryShortage, IsThatOfThePhaseThatNeedsMost) {
  Workload workload{"w", 1'000'000'000, 4, 1};
  workload.framework = Framework::deepspeed_offload;
  const MemoryForecast forecast = forecast_of(least_job_of(workload, StateFormat::fp32));
  const std::uint64_t steady = forecast.at(FitPhase::steady).bytes;
  ASSERT_GT(forecast.at(FitPhase::resume).bytes, steady + kGiB);
  const auto shortage = memory_shortage(workload, StateFormat::fp32, limits_of_bytes(steady));
  EXPECT_THAT(shortage.value(), HasSubstr("at resume"));
  EXPECT_EQ(memory_shortage(workload, StateFormat::fp32, limits_of_bytes(forecast.peak_bytes())),
            std::nullopt);
}

TEST(MemoryShortage, IsThatOfSharedMemory) {
  Workload workload{"w", 1'000'000'000, 4, 1};
  workload.framework = Framework::deepspeed_zenflow;
  workload.mode = Mode::overlap;
  NodeLimits limits = limits_of_bytes(100 * kGiB);
  limits.more.shared_memory = 14 * kGiB;
  EXPECT_THAT(memory_shortage(workload, StateFormat::fp32, limits).value(),
              HasSubstr("1B parameters: /dev/shm has room for 14.0 GiB, and this job keeps 14.9 GiB there"));
  limits.more.shared_memory = 15 * kGiB;
  EXPECT_EQ(memory_shortage(workload, StateFormat::fp32, limits), std::nullopt);
}

TEST(FitReport, TextNamesPhasesChangesAndWhatIsNotKnown) {
  FitJob job = zero_2(7'000'000'000);
  job.pinned = true;
  const FitReport report = fit_report(job, limits_of_bytes(100 * kGiB));
  const std::string text = fit_text(report, 100);
  for (const char* const words :
       {"does not fit: short of", "checkpoint in memory", "Changes that would help:", "--pinned no",
        "The largest model that fits", "GPU memory is not estimated.", "is from source"})
    EXPECT_THAT(text, HasSubstr(words));
}

}  // namespace
}  // namespace zf
