#include "search/tuning.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

#include "base/error.hpp"

namespace zf {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

struct Visits {
  int count = 0;
  bool fail = false;
  bool unbound_is_fast = false;
};

/// Passes visits on to another meter and counts them, or fails, or makes those of unbound three times as
/// fast.
class CountingMeter : public Meter {
 public:
  CountingMeter(std::unique_ptr<Meter> meter, Visits& visits) : meter_(std::move(meter)), visits_(visits) {}
  std::vector<SplitSample> measure(const Split& split, const VisitLimits& limits) override {
    ++visits_.count;
    if (visits_.fail) throw Error(Exit::runtime_error, "no memory is left");
    std::vector<SplitSample> samples = meter_->measure(split, limits);
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

/// Tunes a simulated job for DeepSpeed. `swept` is called when the sweep for the plan has ended. `signal` is
/// the one that has come, or 0.
Plan tune_for_deepspeed(Visits& visits, const int& signal, const std::function<void()>& swept) {
  TuningRequest request;
  request.for_deepspeed = true;
  TuningJob job = job_on_simulated_machine(
      std::string(ZF_SOURCE_DIR) + "/configs/machines/epyc-7742-8gpu-nps4.json", request);
  job.meter = std::make_unique<CountingMeter>(std::move(job.meter), visits);
  return tune(
      job, request, nullptr, [&] { return signal; }, [](const SweepProgress&) {}, swept);
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
  const Plan plan = tune_for_deepspeed(visits, 0, [&] { visits.fail = true; });
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

}  // namespace
}  // namespace zf
