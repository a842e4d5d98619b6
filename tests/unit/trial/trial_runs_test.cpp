#include "trial/trial_runs.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "children/temporary_folder.hpp"

namespace zf {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

/// A trial of two splits. Its job is a shell script, which has $split (0 or 1), $run (from 1: which run
/// of that split) and values N TIME..., which prints N values of each time.
class TrialRuns : public testing::Test {
 protected:
  TrialRuns() {
    // A trial that binds the job starts /proc/self/exe, which is this program, and that would start it again.
    if (std::getenv("ZF_IN_TRIAL_RUNS_TEST") != nullptr) std::_Exit(1);
    ::setenv("ZF_IN_TRIAL_RUNS_TEST", "1", 1);
    request_.trials = 2;
    request_.first_look_ns = 200 * kMillisecondNs;
    request_.interrupt = [] { return 0; };
    request_.say = [this](const std::string& line) { said_.push_back(line); };
    request_.file = folder_ / "trial.json";
  }

  ~TrialRuns() override { ::unsetenv("ZF_IN_TRIAL_RUNS_TEST"); }

  TrialResult run(const std::string& script) {
    Home home;
    for (int i = 0; i < 4; ++i) home.cores.push_back({CpuSet{Pu{i}}, Node{0}, 0, 0});
    home.mems = NodeSet{Node{0}};
    // The word after the script keeps the trial from binding it.
    request_.command = {"sh", "-c",
                        R"(
        values() { n=$1; shift; for time; do for i in $(seq $n); do echo "t=$time"; done; done; }
        split=${ZF_PLAN##*plan-}; split=${split%.json}
        cd ")" + folder_.path().string() +
                            R"("; echo x >>runs-$split; run=$(wc -l <runs-$split);
        )" + script,
                        "sh -c 'srun zf-tune exec -- train.py'"};
    const std::vector<TrialSplit> splits{{split_of({home}, {.pool_cores = 1}), -1},
                                         {split_of({home}, {.pool_cores = 2}), -1}};
    return run_trial(splits, [](const TrialSplit&) { return Plan(); }, metric_, request_, {});
  }

  std::vector<std::size_t> run_counts(const TrialResult& result) const {
    std::vector<std::size_t> counts;
    for (const TrialCandidate& candidate : result.trial.candidates) counts.push_back(candidate.runs.size());
    return counts;
  }

  const TemporaryFolder folder_{"zf-trial-runs"};
  const Metric metric_{"t=([0-9.]+)"};
  TrialRequest request_;
  std::vector<std::string> said_;
};

TEST_F(TrialRuns, ASlowSplitIsGivenUpWhicheverComesFirst) {
  for (const char* const slow : {"0", "1"}) {
    request_.fresh = true;
    const auto counts =
        run_counts(run(std::string("[ $split = ") + slow + " ] && values 6 900 || values 6 100"));
    EXPECT_THAT(counts, testing::UnorderedElementsAre(1, 2));
  }
}

TEST_F(TrialRuns, ASlowStartIsNoReasonToStopARun) {
  // Both splits were slow and are fast now; the second run needs some looks to its first value.
  request_.trials = 3;
  const TrialResult result = run(R"(
      [ $run = 1 ] || sleep 0.5
      [ $split = 0 ] && values 6 100 || values 6 190)");
  EXPECT_THAT(run_counts(result), Contains(3U));
  for (const TrialCandidate& candidate : result.trial.candidates) {
    for (const auto& values : candidate.runs) EXPECT_FALSE(values.empty());
  }
}

TEST_F(TrialRuns, ARunIsNotJudgedBeforeItsFirstValue) {
  const RunWatch watch{true, [](const std::vector<double>& present) {
                         EXPECT_FALSE(present.empty());
                         return true;
                       }};
  const auto ended = run_once({"sh", "-c", "sleep 0.5; echo t=5; sleep 60"}, metric_, request_, watch);
  EXPECT_TRUE(ended.hopeless);
  EXPECT_THAT(ended.values, ElementsAre(5));
}

TEST_F(TrialRuns, ARunThatIsLateCountsWithItsValues) {
  request_.trials = 1;
  request_.timeout_ns = 3 * kSecondNs;
  const TrialResult result = run("values 6 100; [ $split = 0 ] || sleep 60");
  EXPECT_THAT(run_counts(result), ElementsAre(1, 1));
  EXPECT_THAT(said_, Contains(HasSubstr("(--timeout). Its 5 values so far count")));
  EXPECT_THAT(result.warnings, ElementsAre(HasSubstr("runs were stopped after 3")));
}

TEST_F(TrialRuns, ARunThatIsLateAndPrintedNothingFails) {
  request_.timeout_ns = 300 * kMillisecondNs;
  try {
    run("sleep 60");
    ADD_FAILURE();
  } catch (const TrialFailure& failure) {
    EXPECT_THAT(failure.what(), HasSubstr("(--timeout) and printed nothing"));
  }
}

TEST_F(TrialRuns, ARunEndsWhenItHasEnoughValues) {
  request_.trials = 1;
  request_.values = 10;
  request_.warmup = 4;
  request_.timeout_ns = 5 * kSecondNs;
  const TrialResult result = run("values 8 1 2; sleep 60");
  ASSERT_THAT(run_counts(result), ElementsAre(1, 1));
  for (const TrialCandidate& candidate : result.trial.candidates)
    EXPECT_THAT(candidate.runs.front(), ElementsAre(1, 1, 1, 1, 2, 2));
  EXPECT_THAT(result.warnings, testing::IsEmpty()) << "none was late";
}

TEST_F(TrialRuns, TheFirstValueIsToldAlsoAfterThePatienceHasEnded) {
  request_.trials = 1;
  request_.patience_ns = 300 * kMillisecondNs;
  run("sleep 4; values 6 7");
  ASSERT_GE(said_.size(), 2U);
  EXPECT_THAT(said_[0], HasSubstr("--metric has matched none of the 0 lines"));
  EXPECT_THAT(said_[1], HasSubstr("--metric matches: the first value is 7"));
  EXPECT_EQ(std::count(said_.begin(), said_.end(), said_[1]), 1);
}

TEST_F(TrialRuns, RunsThatAreNotUsedAreToldWithTheReason) {
  request_.trials = 1;
  run("values 6 100");
  said_.clear();
  run("values 6 100");
  EXPECT_THAT(said_, Contains(HasSubstr("going on with the 2 runs")));
  said_.clear();
  request_.framework = Framework::native;
  run("values 6 100");
  EXPECT_THAT(said_, Contains(HasSubstr("the 2 runs in")));
  EXPECT_THAT(said_, Contains(HasSubstr("made with another framework. ")));
  EXPECT_THAT(said_, Not(Contains(HasSubstr("going on"))));
}

}  // namespace
}  // namespace zf
