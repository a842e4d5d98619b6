#include "planning/unmeasured_plan.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../homes/random_machine.hpp"
#include "gpus/moved_gpus.hpp"
#include "planning/retarget.hpp"

namespace zf {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

Machine machine_with(const Topology& topology, const CpuSet& cpus) {
  Machine machine{topology, make_allowed(topology)};
  machine.allowed.cpus = cpus;
  return machine;
}

Machine two_packages(std::string_view cpus = "") {
  const Topology topology = make_topology({.packages = 2, .cores_per_l3 = 20});
  return machine_with(topology, cpus.empty() ? topology.cpus : parse_cpu_list(cpus, "test"));
}

Plan plan_for(const Machine& machine, int ranks, Mode mode = Mode::overlap, bool for_deepspeed = false) {
  Workload workload{"w", 1000, ranks, 1};
  workload.mode = mode;
  return unmeasured_plan(machine, rank_gpus({}, machine.topology, ranks), workload, for_deepspeed, "zf-tune");
}

Plan retargeted(const Machine& machine, const Plan& plan) {
  return retarget(plan, machine, moved_gpus({}, machine.topology, plan, plan.workload.ranks));
}

std::string reason(const Plan& plan) { return plan.choice.reason; }

TEST(UnmeasuredPlan, TheReasonHasTheNumbersOfThePlan) {
  EXPECT_EQ(
      reason(plan_for(two_packages(), 2)),
      "Nothing was measured. In each home 10 cores train and 10 cores run the optimizer: half each, which "
      "is DeepSpeed's own default");
  EXPECT_EQ(
      reason(plan_for(two_packages("0-14,20-36"), 2)),
      "Nothing was measured. In each home 8 to 10 cores train and 7 cores run the optimizer: every pool "
      "has half of the smallest home");
  EXPECT_EQ(
      reason(plan_for(two_packages("0-1"), 1)),
      "Nothing was measured. In each home 1 core trains and 1 core runs the optimizer: half each, which "
      "is DeepSpeed's own default");
  EXPECT_EQ(reason(plan_for(two_packages("0-1"), 2)),
            "Nothing was measured. Every home has one core, so both sides share it");
  EXPECT_THAT(reason(plan_for(two_packages(), 2, Mode::wait)),
              StartsWith("Nothing was measured. In mode wait the sides take turns"));
}

TEST(UnmeasuredPlan, ARefittedOneSaysWhatItHas) {
  const Plan small = plan_for(two_packages("0-3,20-23"), 2);
  EXPECT_THAT(reason(small), HasSubstr("2 cores train and 2 cores run the optimizer: half each"));
  EXPECT_THAT(reason(retargeted(two_packages(), small)),
              HasSubstr("10 cores train and 10 cores run the optimizer: half each"));
}

TEST(UnmeasuredPlan, ARefitIsAFreshPlan) {
  int moved_ones = 0;
  for (unsigned seed = 0; seed < 600 / ZF_FEWER; ++seed) {
    Dice dice(seed);
    const Topology topology = random_topology(dice);
    const Machine before = machine_with(topology, random_cpus(topology.cpus, dice));
    const Machine after = machine_with(topology, random_cpus(topology.cpus, dice));
    const int ranks = std::min(random_ranks(topology, before.allowed.cpus, dice),
                               random_ranks(topology, after.allowed.cpus, dice));
    const Mode mode = dice(0, 1) == 0 ? Mode::wait : Mode::overlap;
    const bool for_deepspeed = ranks > 1 && dice(0, 3) == 0;
    const Plan plan = plan_for(before, ranks, mode, for_deepspeed);
    Plan fresh = plan_for(after, ranks, mode, for_deepspeed);
    fresh.made = plan.made;
    const Plan moved = retargeted(after, plan);
    EXPECT_EQ(moved, fresh) << "seed " << seed << ": from " << print(before.allowed.cpus) << " to "
                            << print(after.allowed.cpus);
    moved_ones += moved.ranks != plan.ranks;
  }
  EXPECT_GT(moved_ones, 300 / ZF_FEWER);
}

}  // namespace
}  // namespace zf
