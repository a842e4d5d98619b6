#include "launch/allocation_fit.hpp"

#include <gtest/gtest.h>

#include "two_ranks.hpp"

namespace zf {
namespace {

/// Returns how two_ranks() fits where a rank sees `seen`, of `of_job` which the job may use.
AllocationFit fit(const char* seen, int ranks = 2, const char* of_job = nullptr, const char* isolated = "") {
  return allocation_fit_of(two_ranks(), ranks, allowed(seen), allowed(of_job == nullptr ? seen : of_job),
                           parse_cpu_list(isolated, "test"));
}

TEST(AllocationFit, AllHomesThereKeepTheirPlaces) {
  EXPECT_EQ(fit("0-15"), AllocationFit::as_planned);
  EXPECT_EQ(fit("0-15", 2, "0-31"), AllocationFit::as_planned) << "a mask that leaves all homes whole";
}

TEST(AllocationFit, ACutThroughAllHomesMakesNewOnesForAll) {
  EXPECT_EQ(fit("0-11"), AllocationFit::new_homes)
      << "if rank 0 kept its CPUs, rank 1's new ones would overlap them";
  EXPECT_EQ(fit("16-31"), AllocationFit::new_homes) << "none of the plan's CPUs";
}

TEST(AllocationFit, OneHomeAndNothingOfTheOtherIsAmbiguous) {
  // The CPUs are the job's, and rank 1 needs some of them; or they are rank 0's alone.
  EXPECT_EQ(fit("0-7"), AllocationFit::ambiguous);
  EXPECT_EQ(fit("0"), AllocationFit::ambiguous) << "one CPU";
}

TEST(AllocationFit, AMaskMayBeTheJobsOrTheRanks) {
  EXPECT_EQ(fit("0-7", 2, "0-15"), AllocationFit::ambiguous)
      << "rank 0's home: another rank may have the same mask";
  EXPECT_EQ(fit("0-11", 2, "0-15"), AllocationFit::ambiguous);
  EXPECT_EQ(fit("0-7", 4, "0-15"), AllocationFit::ambiguous);
  EXPECT_EQ(fit("0-7", 1, "0-15"), AllocationFit::new_homes) << "a single rank has it alone";
}

TEST(AllocationFit, CpusThatTheKernelIsolatesAreTakenAwayByNobodysMask) {
  EXPECT_EQ(fit("0-11", 2, "0-15", "12-15"), AllocationFit::new_homes) << "init's mask lacks them";
  EXPECT_EQ(fit("0-11", 4, "0-15", "12-15"), AllocationFit::new_homes);
  EXPECT_EQ(fit("0-10", 2, "0-15", "12-15"), AllocationFit::ambiguous) << "CPU 11 is not isolated";
  EXPECT_EQ(fit("0-13", 2, "0-13", "12-15"), AllocationFit::new_homes) << "the job was given two of them";
}

TEST(AllocationFit, OtherRanksNeedOtherHomes) {
  EXPECT_EQ(fit("0-15", 1), AllocationFit::new_homes);
  EXPECT_EQ(fit("0-15", 4), AllocationFit::new_homes);
}

TEST(AllocationFit, APlanOnSharedCpusHoldsInEveryPodOfTheNode) {
  Plan plan = two_ranks();
  plan.workload.mode = Mode::overlap;
  plan.allocation.shared_cpus = true;
  plan.allocation.cpu_quota = 8;
  for (RankBinding& rank : plan.ranks) {
    rank.home = {parse_cpu_list("0-15", "test"), 4};
    rank.training = {rank.home.cpus, 2};
    rank.optimizer.cpus = rank.home.cpus;
    rank.optimizer.threads = 2;
  }
  Allowed here = allowed("0-31");
  here.cpu_quota = 8;
  EXPECT_EQ(allocation_fit_of(plan, 2, here, here, {}), AllocationFit::as_planned);
  here.cpu_quota = 10;
  EXPECT_EQ(allocation_fit_of(plan, 2, here, here, {}), AllocationFit::as_planned)
      << "pays for its 8 threads";
  here.cpu_quota = 6;
  EXPECT_EQ(allocation_fit_of(plan, 2, here, here, {}), AllocationFit::new_homes);
}

TEST(AllocationFit, AQuotaThatIsNewAndBelowTheThreadsCounts) {
  Plan plan = two_ranks();
  Allowed here = allowed("0-15");
  here.cpu_quota = 15.5;
  EXPECT_EQ(allocation_fit_of(plan, 2, here, here, {}), AllocationFit::new_homes);
  plan.allocation.cpu_quota = 15.5;
  EXPECT_EQ(allocation_fit_of(plan, 2, here, here, {}), AllocationFit::as_planned) << "it was made under it";
  here.cpu_quota = 16;
  EXPECT_EQ(allocation_fit_of(plan, 2, here, here, {}), AllocationFit::as_planned) << "16 threads";
}

}  // namespace
}  // namespace zf
