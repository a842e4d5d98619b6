#include "report/tuning_notes.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace zf {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

/// Returns the notes on a job in this mode, on a real machine.
std::vector<std::string> notes_in_mode(Mode mode, const TuningRequest& request) {
  TuningJob job;
  job.workload.mode = mode;
  job.workload.training.emplace();
  return notes_before_sweep(request, job, nullptr);
}

TEST(TuningNotes, TheModeIsCalledTheDefaultIfNobodyChoseIt) {
  TuningRequest request;
  EXPECT_THAT(
      notes_in_mode(Mode::wait, request),
      ElementsAre("mode wait, update interval 1 (the default; see --mode, --update-interval, --workload)"));
  request.mode = Mode::wait;
  EXPECT_THAT(notes_in_mode(Mode::wait, request), ElementsAre("mode wait, update interval 1"));
  request.mode.reset();
  request.has_workload_file = true;
  EXPECT_THAT(notes_in_mode(Mode::wait, request), ElementsAre("mode wait, update interval 1"));
}

TEST(TuningNotes, AnEstimateThatThePlanRestsOnIsSaid) {
  const auto a_third = HasSubstr("a third of a training step is taken as forward");
  EXPECT_THAT(notes_in_mode(Mode::backward, {}), Contains(a_third));
  EXPECT_THAT(notes_in_mode(Mode::overlap, {}), Not(Contains(a_third)));

  const auto factor = HasSubstr("taken as 1.25 times ours");
  TuningJob job;
  job.workload.step_factor = 1.25;
  TuningRequest request;
  EXPECT_THAT(notes_before_sweep(request, job, nullptr), Contains(factor));
  request.workload.step_factor = 1.25;
  EXPECT_THAT(notes_before_sweep(request, job, nullptr), Not(Contains(factor))) << "the file has it";
}

TEST(TuningNotes, WhatIsInThePeriodAndInNoColumnIsSaid) {
  TuningJob job;
  job.workload.training.emplace();
  const auto copy = HasSubstr("each period includes 20.0 ms for the copy of the new parameters");
  EXPECT_THAT(notes_before_sweep({}, job, nullptr), Not(Contains(copy)));
  job.workload.training->parameter_bytes = 20'000'000;
  job.workload.training->copy_bytes_per_s = 1'000'000'000;
  EXPECT_THAT(notes_before_sweep({}, job, nullptr), Contains(copy));
}

TEST(TuningNotes, WhereTheNumberOfRanksComesFromIsSaid) {
  TuningJob job;
  job.ranks_note = "2 ranks (LOCAL_WORLD_SIZE)";
  EXPECT_THAT(notes_before_sweep({}, job, nullptr), Contains("2 ranks (LOCAL_WORLD_SIZE)"));
}

}  // namespace
}  // namespace zf
