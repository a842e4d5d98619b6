#include "report/tuned_plan.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <limits>

#include "../os/tree.hpp"
#include "base/error.hpp"
#include "paths.hpp"
#include "report/tuning_notes.hpp"

namespace zf {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

struct Visits {
  int count = 0;
  int good = std::numeric_limits<int>::max();  ///< visits that do not fail
  bool rooflines_spread = false;               ///< every second roofline loop is four times as fast
  bool unbound_is_fast = false;
};

/// Passes visits on to another meter and counts them, or fails, or makes those of unbound three times as
/// fast.
class CountingMeter : public Meter {
 public:
  CountingMeter(std::unique_ptr<Meter> meter, Visits& visits) : meter_(std::move(meter)), visits_(visits) {}
  std::vector<SplitSample> measure(const Split& split, const VisitLimits& limits) override {
    if (visits_.count++ >= visits_.good) throw Error(Exit::runtime_error, "no memory is left");
    auto samples = meter_->measure(split, limits);
    for (std::size_t i = 1; visits_.rooflines_spread && i < samples.size(); i += 2)
      samples[i].roofline_ns /= 4;
    if (visits_.unbound_is_fast && split.shape.control == Control::unbound) {
      for (SplitSample& sample : samples) {
        for (Nanoseconds* time : {&sample.step_ns, &sample.roofline_ns, &sample.training_ns}) *time /= 3;
      }
    }
    return samples;
  }
  std::uint64_t elements_per_rank() const override { return meter_->elements_per_rank(); }
  double scale() const override { return meter_->scale(); }
  std::string isa() const override { return meter_->isa(); }
  Nanoseconds now() const override { return meter_->now(); }

 private:
  std::unique_ptr<Meter> meter_;
  Visits& visits_;
};

/// Returns a simulated job that counts its visits.
TuningJob simulated_job_of(const TuningRequest& request, Visits& visits) {
  TuningJob job = job_on_simulated_machine(
      std::string(kSourceDir) + "/configs/machines/epyc-7742-8gpu-nps4.json", request);
  job.meter = std::make_unique<CountingMeter>(std::move(job.meter), visits);
  return job;
}

/// Tunes a simulated job for DeepSpeed. `swept` is called when the sweep for the plan has ended. `signal` is
/// the one that has come, or 0.
Plan tune_for_deepspeed(Visits& visits, const int& signal, const std::function<void()>& swept) {
  TuningRequest request;
  request.for_deepspeed = true;
  TuningJob job = simulated_job_of(request, visits);
  return plan_of(job, request,
                 tune(
                     job, request, nullptr, [&] { return signal; }, [](const SweepProgress&) {}, swept));
}

TEST(Tuning, ASimulatedMachineSaysWhatItWasComparedWith) {
  const auto second_warning = [](const char* machine) {
    return job_on_simulated_machine(std::filesystem::path(kSourceDir) / "configs" / "machines" / machine, {})
        .warnings.at(1);
  };
  EXPECT_THAT(second_warning("epyc-7742-8gpu-nps1.json"), HasSubstr("6 of 6 signs right"));
  EXPECT_THAT(second_warning("cloud-2vcpu.json"), HasSubstr("no public measurement"));
}

TEST(TuningJob, AWorkloadThatNoPlanCanHaveIsRefused) {
  TuningRequest request;
  request.workload = {
      .name = "x", .params = 1'000'000, .training = TrainingDemand{.gpu_ns = 3600 * kSecondNs}};
  Visits visits;
  EXPECT_NO_THROW(simulated_job_of(request, visits));
  ++request.workload.training->gpu_ns;
  EXPECT_THROW(simulated_job_of(request, visits), Error);
}

TEST(RestrictionCost, InWords) {
  const auto words = [](const Difference& longer) {
    return cost_in_words({.free_label = "pool 4", .longer = longer}, 0.02);
  };
  EXPECT_EQ(words({-0.107, -0.114, -0.1}),
            "Against this plan, the free choice, \"pool 4\", is faster: -10.7 % (-11.4 to -10.0 %; minus is "
            "faster)");
  EXPECT_THAT(words({-0.005, -0.015, 0.005}), HasSubstr("the free choice, \"pool 4\", is a tie: -0.5 % ("));
  EXPECT_EQ(words({-0.1, -1, std::numeric_limits<double>::infinity()}),
            "How the free choice, \"pool 4\", compares with this plan is not known: too few measurements");
  EXPECT_EQ(cost_in_words({}, 0.02), "What that costs against the free choice was not measured");
}

TEST(TuneForDeepSpeed, WhatTheRestrictionCostsIsMeasuredAfterTheSweep) {
  Visits visits;
  int swept = 0;
  const Plan plan = tune_for_deepspeed(visits, 0, [&] { swept = visits.count; });
  EXPECT_THAT(plan.choice.reason, AllOf(HasSubstr("free choice"), Not(HasSubstr("not measured"))));
  EXPECT_GT(visits.count, swept);
}

TEST(TuneForDeepSpeed, ThePlanStandsIfThatCannotBeMeasured) {
  Visits visits;
  const Plan plan = tune_for_deepspeed(visits, 0, [&] { visits.good = visits.count; });
  EXPECT_THAT(plan.choice.reason, HasSubstr("was not measured: no memory is left"));
}

TEST(TuneForDeepSpeed, ASignalEndsThatToo) {
  Visits visits;
  int signal = 0;
  int swept = 0;
  const Plan plan = tune_for_deepspeed(visits, signal, [&] {
    swept = visits.count;
    signal = SIGINT;
  });
  EXPECT_THAT(plan.choice.reason, AllOf(HasSubstr("cut short by SIGINT"), HasSubstr("was not measured")));
  EXPECT_EQ(visits.count, swept);
}

TEST(TuneForDeepSpeed, TheAdviceToRunUnboundComesLast) {
  Visits visits{.unbound_is_fast = true};
  const Plan plan = tune_for_deepspeed(visits, 0, [] {});
  EXPECT_THAT(plan.choice.reason, HasSubstr("kept to what DeepSpeed can be told"));
  EXPECT_TRUE(plan.choice.reason.ends_with(". No plan can express that: run this job unbound"))
      << plan.choice.reason;
}

/// Tunes a simulated job, and keeps its samples beside `plan`.
Plan tune_beside(const std::filesystem::path& plan, Visits& visits) {
  TuningRequest request;
  request.plan = plan;
  TuningJob job = simulated_job_of(request, visits);
  const auto recorder = make_recorder(job, request);
  return plan_of(job, request,
                 tune(
                     job, request, recorder.get(), [] { return 0; }, [](const SweepProgress&) {}, [] {}));
}

/// Returns what is said of the samples that the next sweep finds beside `plan`: before it, and if it is
/// interrupted at once.
std::vector<std::string> notes_beside(const std::filesystem::path& plan, bool fresh = false) {
  Visits visits;
  TuningRequest request;
  request.plan = plan;
  request.fresh = fresh;
  const TuningJob job = simulated_job_of(request, visits);
  const auto recorder = make_recorder(job, request);
  std::vector<std::string> notes = notes_before_sweep(request, job, recorder.get());
  notes.push_back(how_to_go_on(request, *recorder));
  return notes;
}

TEST(Tune, AVisitThatFailsIsSaidAndTheNextSweepGoesOnFromThere) {
  TestFolder folder;
  const auto file = folder.path() / "plan.json";
  Visits visits{.good = 10};
  const Plan plan = tune_beside(file, visits);
  EXPECT_THAT(plan.choice.reason, HasSubstr(". The sweep was cut short: a visit failed"));
  EXPECT_THAT(plan.warnings, Contains(HasSubstr("cut short: no memory is left")));
  const auto goes_on = HasSubstr("continuing the interrupted sweep in " + sample_file_of(file).string());
  EXPECT_THAT(notes_beside(file),
              AllOf(Contains(goes_on), Contains("the same command continues this sweep")));

  Visits more;
  EXPECT_THAT(tune_beside(file, more).choice.reason, Not(HasSubstr("cut short")));
  EXPECT_GT(more.count, 0);
  EXPECT_THAT(notes_beside(file), Not(Contains(goes_on))) << "that one was finished";
}

TEST(Tune, AFreshSweepDoesNotGoOn) {
  TestFolder folder;
  const auto file = folder.path() / "plan.json";
  Visits visits{.good = 10};
  tune_beside(file, visits);
  EXPECT_THAT(notes_beside(file, true), Not(Contains(HasSubstr("continuing the interrupted sweep"))));
}

TEST(Tune, APlanOnStandardOutputKeepsNoSamples) {
  Visits visits;
  EXPECT_EQ(make_recorder(simulated_job_of({}, visits), {}), nullptr);
}

TEST(Tune, BandwidthsThatCannotTellASlowNodeAreAWarning) {
  const auto cannot_tell = HasSubstr("zf-tune check --bandwidth cannot tell");
  TestFolder folder;
  Visits calm;
  EXPECT_THAT(tune_beside(folder.path() / "calm.json", calm).warnings, Not(Contains(cannot_tell)));
  Visits wild{.rooflines_spread = true};
  EXPECT_THAT(tune_beside(folder.path() / "wild.json", wild).warnings, Contains(cannot_tell));
}

}  // namespace
}  // namespace zf
