#include "plan/plan_check.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "../os/cpus.hpp"
#include "base/error.hpp"
#include "make_plan.hpp"

namespace zf {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(PlanCheck, ASoundPlanHasNoViolation) {
  const auto violation = find_violation(make_plan());
  EXPECT_FALSE(violation) << violation->field << ": " << violation->what;
}

TEST(PlanCheck, NothingMeasuredIsSound) {
  Plan plan = make_plan();
  plan.evidence = {};
  plan.choice.candidate = -1;
  plan.choice.period_ns_median = 0;
  plan.allocation.cpu_quota.reset();
  plan.allocation.memory_bytes.reset();
  EXPECT_FALSE(find_violation(plan));
}

TEST(PlanCheck, OneSharedCoreIsSound) {
  Plan plan = make_plan();
  plan.ranks = {make_rank(0, "7", "7", "0")};
  plan.ranks[0].shared = true;
  plan.ranks[0].home.threads = 1;
  plan.ranks[0].pt_reserved_cores = 0;
  plan.ranks[0].pt_reserved_cores_perc = 0.5;
  plan.workload.ranks = 1;
  plan.choice.pool_threads = 1;
  const auto violation = find_violation(plan);
  EXPECT_FALSE(violation) << violation->field << ": " << violation->what;
}

/// Returns a plan of two ranks that divide three threads each on all CPUs of the allocation.
Plan plan_on_shared_cpus() {
  Plan plan = make_plan();
  plan.allocation.shared_cpus = true;
  for (RankBinding& rank : plan.ranks) {
    rank.home = {plan.allocation.cpus, 3};
    rank.training = {plan.allocation.cpus, 1};
    rank.optimizer.cpus = plan.allocation.cpus;
    rank.optimizer.threads = 2;
    rank.pt_reserved_cores = 1;
    const auto all = static_cast<int>(plan.allocation.cpus.size());
    rank.pt_reserved_cores_perc = reserved_perc(all, all);
  }
  plan.choice.pool_threads = 2;
  return plan;
}

TEST(PlanCheck, HomesMayOverlapWhereNeighboursShareTheCpus) {
  const auto violation = find_violation(plan_on_shared_cpus());
  EXPECT_FALSE(violation) << violation->field << ": " << violation->what;
}

TEST(PlanCheck, SharedCpusHaveInvariantsOfTheirOwn) {
  const struct {
    const char* field;
    std::function<void(Plan&)> break_it;
  } cases[] = {
      {"ranks[0].optimizer.threads", [](Plan& p) { p.allocation.shared_cpus = false; }},
      {"ranks[1].optimizer.threads", [](Plan& p) { p.ranks[1].optimizer.threads.reset(); }},
      {"ranks[1].optimizer.threads", [](Plan& p) { p.ranks[1].optimizer.threads = 33; }},
      {"ranks[1].optimizer.threads", [](Plan& p) { p.ranks[1].optimizer.threads = 0; }},
      {"ranks[1].training.cpus", [](Plan& p) { p.ranks[1].training.cpus = cpus("31-41"); }},
      {"ranks[1].optimizer.cpus", [](Plan& p) { p.ranks[1].optimizer.cpus = cpus("31-41"); }},
      {"choice.pool_threads", [](Plan& p) { p.choice.pool_threads = 3; }},
  };
  for (const auto& one : cases) {
    Plan plan = plan_on_shared_cpus();
    one.break_it(plan);
    const auto violation = find_violation(plan);
    ASSERT_TRUE(violation) << one.field;
    EXPECT_EQ(violation->field, one.field) << violation->what;
  }
  Plan pinned = make_plan();
  pinned.ranks[0].optimizer.threads = 5;
  EXPECT_EQ(find_violation(pinned)->field, "ranks[0].optimizer.threads");
}

TEST(PlanCheck, EveryBrokenInvariantNamesItsField) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const struct {
    const char* field;
    std::function<void(Plan&)> break_it;
  } cases[] = {
      {"made.at", [](Plan& p) { p.made.at = "yesterday"; }},
      {"machine.fingerprint", [](Plan& p) { p.machine.fingerprint = "XYZ"; }},
      {"machine.packages", [](Plan& p) { p.machine.packages = -1; }},
      {"machine.numa_nodes", [](Plan& p) { p.machine.numa_nodes = -1; }},
      {"machine.cpus", [](Plan& p) { p.machine.cpus = {}; }},
      {"machine.pus", [](Plan& p) { p.machine.pus = 47; }},
      {"machine.cores", [](Plan& p) { p.machine.cores = 49; }},
      {"allocation.fingerprint", [](Plan& p) { p.allocation.fingerprint.clear(); }},
      {"allocation.cpus", [](Plan& p) { p.allocation.cpus = {}; }},
      {"allocation.cpus", [](Plan& p) { p.allocation.cpus.insert(Pu{48}); }},
      {"allocation.mems", [](Plan& p) { p.allocation.mems = {}; }},
      {"allocation.cpu_quota", [](Plan& p) { p.allocation.cpu_quota = 0; }},
      {"allocation.cpu_quota", [=](Plan& p) { p.allocation.cpu_quota = nan; }},
      {"allocation.memory_bytes", [](Plan& p) { p.allocation.memory_bytes = 0; }},
      {"workload.params", [](Plan& p) { p.workload.params = 0; }},
      {"workload.ranks", [](Plan& p) { p.workload.ranks = 3; }},
      {"workload.update_interval", [](Plan& p) { p.workload.update_interval = 0; }},
      {"intent.pool_pus_per_core", [](Plan& p) { p.intent.pool_pus_per_core = -1; }},
      {"intent.pool_cores", [](Plan& p) { p.intent.pool_cores = 0; }},
      {"intent.reserved_fraction", [](Plan& p) { p.intent.reserved_fraction = 1.5; }},
      {"intent.reserved_fraction", [=](Plan& p) { p.intent.reserved_fraction = nan; }},
      {"ranks", [](Plan& p) { p.ranks.clear(); }},
      {"ranks[1].rank", [](Plan& p) { p.ranks[1].rank = 0; }},
      {"ranks[0].training.cpus", [](Plan& p) { p.ranks[0].training.cpus = {}; }},
      {"ranks[0].training.cpus", [](Plan& p) { p.ranks[0].training.cpus.insert(Pu{1}); }},
      {"ranks[0].training.threads", [](Plan& p) { p.ranks[0].training.threads = 12; }},
      {"ranks[0].training.threads", [](Plan& p) { p.ranks[0].training.threads = 0; }},
      {"ranks[0].optimizer.cpus", [](Plan& p) { p.ranks[0].optimizer.cpus = {}; }},
      {"ranks[0].optimizer.cpus", [](Plan& p) { p.ranks[0].optimizer.cpus = cpus("22-26,30"); }},
      {"ranks[0].training.cpus", [](Plan& p) { p.ranks[0].shared = true; }},
      {"ranks[0].home.cpus", [](Plan& p) { p.ranks[0].home.cpus.insert(Pu{1}); }},
      {"ranks[0].training.cpus", [](Plan& p) { p.ranks[0].home.cpus = p.ranks[0].optimizer.cpus; }},
      {"ranks[1].home.cpus", [](Plan& p) { p.ranks[1].home.cpus.insert(Pu{0}); }},
      {"ranks[0].home.threads", [](Plan& p) { p.ranks[0].home.threads = 99; }},
      {"intent.shared", [](Plan& p) { p.intent.shared = true; }},
      {"intent.ranks_per_gpu", [](Plan& p) { p.intent.gpus_per_rank = p.intent.ranks_per_gpu = 2; }},
      {"intent.gpus_per_rank", [](Plan& p) { p.intent.gpus_per_rank = -1; }},
      {"ranks[1].more_gpus", [](Plan& p) { p.ranks[1].more_gpus.resize(1); }},
      {"ranks[0].more_gpus",
       [](Plan& p) {
         p.intent.gpus_per_rank = 2;
         p.ranks[0].more_gpus.resize(1);
       }},
      {"choice.headroom.step_slowdown",
       [](Plan& p) {
         p.choice.headroom = Headroom{1, -1};
       }},
      {"ranks[0].optimizer.mems", [](Plan& p) { p.ranks[0].optimizer.mems = {}; }},
      {"ranks[1].optimizer.mems", [](Plan& p) { p.ranks[1].optimizer.mems = NodeSet{Node{2}}; }},
      {"ranks[1].training.cpus", [](Plan& p) { p.ranks[1] = make_rank(1, "30-41", "42-46", "1"); }},
      {"ranks[1].optimizer.cpus", [](Plan& p) { p.ranks[1] = make_rank(1, "31-41", "0", "1"); }},
      {"ranks[0].pt_reserved_cores", [](Plan& p) { p.ranks[0].pt_reserved_cores = 0; }},
      {"ranks[0].pt_reserved_cores", [](Plan& p) { p.ranks[0].pt_reserved_cores = 12; }},
      {"ranks[0].pt_reserved_cores_perc", [](Plan& p) { p.ranks[0].pt_reserved_cores_perc = 0.5; }},
      {"ranks[0].pt_reserved_cores_perc", [=](Plan& p) { p.ranks[0].pt_reserved_cores_perc = nan; }},
      {"choice.reason", [](Plan& p) { p.choice.reason.clear(); }},
      {"choice.candidate", [](Plan& p) { p.choice.candidate = 2; }},
      {"choice.candidate", [](Plan& p) { p.choice.candidate = -2; }},
      {"choice.period_ns_median", [](Plan& p) { p.choice.period_ns_median = -1; }},
      {"choice.pool_threads", [](Plan& p) { p.choice.pool_threads = 4; }},
      {"evidence.roofline.bytes_per_s_median",
       [=](Plan& p) { p.evidence.roofline.bytes_per_s_median = nan; }},
      {"evidence.roofline.threads", [](Plan& p) { p.evidence.roofline.threads = -1; }},
      {"evidence.noise_floor", [](Plan& p) { p.evidence.noise_floor = HUGE_VAL; }},
      {"evidence.candidates[1].id", [](Plan& p) { p.evidence.candidates[1].id = 0; }},
      {"evidence.candidates[0].id", [](Plan& p) { p.evidence.candidates[0].id = -1; }},
      {"evidence.candidates[0].reserved_cores",
       [](Plan& p) { p.evidence.candidates[0].reserved_cores = -1; }},
      {"evidence.candidates[0].pool_cores", [](Plan& p) { p.evidence.candidates[0].pool_cores = 0; }},
      {"evidence.candidates[0].pool_threads", [](Plan& p) { p.evidence.candidates[0].pool_threads = 0; }},
      {"evidence.candidates[0].step_ns_median",
       [](Plan& p) { p.evidence.candidates[0].step_ns_median = -1; }},
      {"evidence.candidates[0].step_spread", [=](Plan& p) { p.evidence.candidates[0].step_spread = nan; }},
      {"intent.idle_fraction", [](Plan& p) { p.intent.idle_fraction = -0.1; }},
      {"intent.pool_kind", [](Plan& p) { p.intent.pool_make = -1; }},
      {"choice.candidate", [](Plan& p) { p.evidence.candidates[1].control = Control::unbound; }},
      {"evidence.scale", [](Plan& p) { p.evidence.scale = 1.01; }},
      {"evidence.accuracy_wanted", [](Plan& p) { p.evidence.accuracy_wanted = -1; }},
      {"evidence.accuracy_reached", [=](Plan& p) { p.evidence.accuracy_reached = nan; }},
      {"evidence.candidates[0].idle_cores", [](Plan& p) { p.evidence.candidates[0].idle_cores = -1; }},
      {"evidence.candidates[1].pool_kind", [](Plan& p) { p.evidence.candidates[1].pool_make = -1; }},
      {"evidence.candidates[0].period_ns_median",
       [](Plan& p) { p.evidence.candidates[0].period_ns_median = -1; }},
      {"evidence.candidates[0].period_spread",
       [=](Plan& p) { p.evidence.candidates[0].period_spread = nan; }},
      {"evidence.candidates[0].training_ns_median",
       [](Plan& p) { p.evidence.candidates[0].training_ns_median = -1; }},
      {"evidence.candidates[0].training_spread",
       [](Plan& p) { p.evidence.candidates[0].training_spread = -1; }},
      {"evidence.candidates[0].exposed_ns_median",
       [](Plan& p) { p.evidence.candidates[0].exposed_ns_median = -1; }},
      {"evidence.candidates[0].launch_delay_p50_ns",
       [](Plan& p) { p.evidence.candidates[0].launch_delay_p50_ns = -1; }},
      {"evidence.candidates[0].launch_delay_p99_ns",
       [](Plan& p) { p.evidence.candidates[0].launch_delay_p99_ns = -1; }},
      {"evidence.candidates[0].roofline_ratio",
       [](Plan& p) { p.evidence.candidates[0].roofline_ratio = -0.1; }},
      {"evidence.samples[2].candidate", [](Plan& p) { p.evidence.samples[2].candidate = 2; }},
      {"evidence.samples[2].round", [](Plan& p) { p.evidence.samples[2].round = -1; }},
      {"evidence.samples[2].step_ns", [](Plan& p) { p.evidence.samples[2].times.step_ns = -1; }},
      {"evidence.samples[2].roofline_ns", [](Plan& p) { p.evidence.samples[2].times.roofline_ns = -1; }},
      {"evidence.samples[2].training_ns", [](Plan& p) { p.evidence.samples[2].times.training_ns = -1; }},
      {"evidence.samples[2].launch_delay_p50_ns",
       [](Plan& p) { p.evidence.samples[2].times.launch_delay_p50_ns = -1; }},
      {"evidence.samples[2].launch_delay_p99_ns",
       [](Plan& p) { p.evidence.samples[2].times.launch_delay_p99_ns = -1; }},
  };
  for (const auto& c : cases) {
    Plan plan = make_plan();
    c.break_it(plan);
    const auto violation = find_violation(plan);
    ASSERT_TRUE(violation) << c.field;
    EXPECT_EQ(violation->field, c.field) << violation->what;
    EXPECT_FALSE(violation->what.empty());
  }
}

TEST(PlanFit, APlanFitsItsOwnAllocation) {
  Allowed allowed;
  allowed.cpus = make_plan().allocation.cpus;
  allowed.mems = make_plan().allocation.mems;
  EXPECT_TRUE(differences_from_allowed(make_plan(), allowed).empty());
}

TEST(PlanFit, AnotherMachineIsNoticedAtAGlance) {
  const Plan plan = make_plan();
  MachineIdentity here{plan.machine.model, plan.machine.cpus};
  EXPECT_FALSE(foreign_machine(plan.machine, here));
  here.present.insert(Pu{9999});
  EXPECT_FALSE(foreign_machine(plan.machine, here)) << "offline when the plan was made";
  EXPECT_FALSE(foreign_machine(plan.machine, {})) << "nothing is known";
  here.cpu_model = "Z80";
  EXPECT_THAT(foreign_machine(plan.machine, here).value_or(""), HasSubstr("Z80 here"));
  here = {plan.machine.model, {Pu{0}}};
  EXPECT_THAT(foreign_machine(plan.machine, here).value_or(""), HasSubstr("in the plan, 0 here"));
}

TEST(PlanFit, AnotherNumaModeIsNoticedAtAGlance) {
  Plan plan = make_plan();
  plan.machine.numa_nodes = 2;
  MachineIdentity here{plan.machine.model, plan.machine.cpus, plan.machine.cpus, 2};
  EXPECT_FALSE(foreign_machine(plan.machine, here));
  here.numa_nodes = 8;
  EXPECT_THAT(foreign_machine(plan.machine, here).value_or(""), HasSubstr("NPS or sub-NUMA clustering"));
  here.online = here.online - CpuSet{*here.online.begin()};
  EXPECT_FALSE(foreign_machine(plan.machine, here)) << "a node may have no CPU because it is offline";
  here.online = plan.machine.cpus;
  here.numa_nodes = 0;
  EXPECT_FALSE(foreign_machine(plan.machine, here)) << "not known here";
  here.numa_nodes = 8;
  MachineClass without = plan.machine;
  without.numa_nodes = 0;
  EXPECT_FALSE(foreign_machine(without, here)) << "not known to the plan";
}

TEST(PlanFit, EveryDifferenceIsNamedWithItsReason) {
  Allowed allowed;
  allowed.cpus = cpus("0,4-10,21,31-41,43-46");
  allowed.mems = NodeSet{Node{0}};
  allowed.exclusions = {{ExclusionReason::offline, cpus("11,25"), "/sys/devices/system/cpu/online"},
                        {ExclusionReason::affinity_mask, cpus("26"), "the affinity mask"}};
  EXPECT_THAT(
      differences_from_allowed(make_plan(), allowed),
      ElementsAre("CPUs 11,22 of rank 0's training are not allowed here (11: /sys/devices/system/cpu/online; "
                  "22: this machine has no such CPU)",
                  AllOf(HasSubstr("CPUs 23-26,30 of rank 0's optimizer"), HasSubstr("26: the affinity mask")),
                  "NUMA node 1 of rank 0's optimizer is not allowed here (allowed: 0)",
                  HasSubstr("CPU 42 of rank 1's optimizer is not allowed here"),
                  HasSubstr("NUMA node 1 of rank 1's optimizer")));
}

TEST(PlanFit, BindingOfAnUnknownRankNamesTheKnownOnes) {
  const Plan plan = make_plan();
  EXPECT_EQ(binding_of(plan, 1).rank, 1);
  for (const int rank : {2, -1}) {
    try {
      binding_of(plan, rank);
      FAIL() << "rank " << rank << " was found";
    } catch (const Error& error) {
      EXPECT_EQ(error.exit(), Exit::usage);
      EXPECT_THAT(error.what(), HasSubstr("ranks 0-1"));
    }
  }
}

}  // namespace
}  // namespace zf
