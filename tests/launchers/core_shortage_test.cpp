// Tests that a job with few cores is told how few they are, and who can give it more.
#include "launchers/core_shortage.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "base/cpu_list.hpp"
#include "environment_with.hpp"

namespace zf {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

Allowed without(ExclusionReason reason, const std::string& detail = "") {
  Allowed allowed;
  allowed.exclusions = {{reason, parse_cpu_list("2-63", "test"), detail}};
  return allowed;
}

/// Returns the same with what the launcher of this environment can do.
Allowed told(Allowed allowed, const Environment& environment) {
  allowed.more_cpus = how_to_get_cpus(environment, allowed);
  return allowed;
}

const Environment kSlurm = environment_with({{"SLURM_JOB_ID", "7"}});

TEST(CoreShortage, TorchrunInATaskThatSlurmBoundToOneCpu) {
  const Environment torchrun = environment_with({{"SLURM_JOB_ID", "7"}, {"TORCHELASTIC_RUN_ID", "x"}});
  const Error error = too_few_cores(8, 1, told(without(ExclusionReason::affinity_mask), torchrun));
  EXPECT_EQ(error.exit(), Exit::infeasible);
  EXPECT_STREQ(
      error.what(),
      "8 ranks have 1 core, and each needs one of its own; give the job more: srun --cpu-bind=none, or more "
      "--cpus-per-task for sbatch and srun; or run 1 rank at most");
}

TEST(CoreShortage, TheOptionIsThatOfTheLauncherThatWasFound) {
  const Allowed masked = without(ExclusionReason::affinity_mask);
  const Allowed in_cpuset =
      without(ExclusionReason::cgroup_cpuset, "/sys/fs/cgroup/kubepods/pod/cpuset.cpus");
  EXPECT_THAT(how_to_get_cpus(kSlurm, in_cpuset),
              AllOf(HasSubstr("--cpus-per-task"), Not(HasSubstr("--cpu-bind"))));
  const auto remedy = [&](const char* variable, const char* job = "ZF_NO_JOB") {
    return how_to_get_cpus(environment_with({{variable, "0"}, {job, "7"}}), masked);
  };
  EXPECT_EQ(remedy("OMPI_COMM_WORLD_RANK"), "mpirun --bind-to none");
  EXPECT_EQ(remedy("OMPI_COMM_WORLD_LOCAL_RANK"), "mpirun --bind-to none");
  EXPECT_THAT(remedy("OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_JOB_ID"), HasSubstr("mpirun --bind-to none"));
  EXPECT_THAT(remedy("MPI_LOCALRANKID"),
              AllOf(HasSubstr("mpiexec -bind-to none"), HasSubstr("I_MPI_PIN=off")));
  EXPECT_EQ(remedy("PMI_LOCAL_RANK"), "mpiexec -bind-to none");
  EXPECT_THAT(remedy("PMI_LOCAL_RANK", "SLURM_JOB_ID"), HasSubstr("srun --cpu-bind=none"));
  EXPECT_EQ(remedy("FLUX_TASK_LOCAL_ID"), "flux run -o cpu-affinity=off");
  EXPECT_EQ(how_to_get_cpus(environment_with({{"TORCHELASTIC_RUN_ID", "x"}}), masked),
            "torchrun without --numa-binding");
  EXPECT_THAT(how_to_get_cpus({}, masked), HasSubstr("taskset"));
  EXPECT_THAT(how_to_get_cpus({}, in_cpuset), HasSubstr("CPU limit of the pod"));
  EXPECT_THAT(how_to_get_cpus({}, without(ExclusionReason::cgroup_cpuset, "/docker")),
              HasSubstr("docker --cpuset-cpus"));
  EXPECT_THAT(how_to_get_cpus({}, without(ExclusionReason::not_in_list)), HasSubstr("--allowed"));
  EXPECT_EQ(how_to_get_cpus(kSlurm, Allowed()), "") << "no mask keeps any from it";
}

TEST(CoreShortage, AQuotaIsThePodsLimitUnderKubernetes) {
  Allowed allowed;
  allowed.cpu_quota = 2;
  allowed.cpu_quota_path = "/sys/fs/cgroup/cpu.max";
  const Environment pod = environment_with({{"KUBERNETES_SERVICE_HOST", "10.0.0.1"}});
  const auto shortage = core_shortage(8, 64, told(allowed, pod));
  ASSERT_TRUE(shortage);
  EXPECT_FALSE(shortage->impossible);
  EXPECT_THAT(shortage->what,
              StartsWith("8 ranks have the time of 2 CPUs (/sys/fs/cgroup/cpu.max), 0.25 for each"));
  EXPECT_EQ(shortage->remedy,
            "give the job more: a higher CPU limit of the pod (resources.limits.cpu); or run fewer ranks");
  EXPECT_THAT(how_to_get_cpus({}, allowed), HasSubstr("cpu.max"));
}

TEST(CoreShortage, UpToTwoCoresARankAreFew) {
  EXPECT_TRUE(core_shortage(4, 3, {})->impossible);
  EXPECT_THAT(core_shortage(4, 4, {})->what, StartsWith("4 ranks have 4 cores, 1 for each: "));
  EXPECT_THAT(core_shortage(4, 6, {})->what, StartsWith("4 ranks have 6 cores, 1.5 for each: "));
  EXPECT_TRUE(core_shortage(4, 8, {}));
  EXPECT_FALSE(core_shortage(4, 9, {}));
  EXPECT_EQ(core_shortage(4, 4, {})->remedy, "run fewer ranks, or allow more cores");
}

TEST(CoreShortage, OneRankWithAllOfASmallMachineHasAllThereIs) {
  EXPECT_FALSE(core_shortage(1, 1, {}));
  EXPECT_FALSE(core_shortage(1, 2, without(ExclusionReason::offline)));
  const auto masked = core_shortage(1, 1, told(without(ExclusionReason::affinity_mask), kSlurm));
  ASSERT_TRUE(masked);
  EXPECT_THAT(in_words(*masked), AllOf(StartsWith("1 rank has 1 core: "), HasSubstr("--cpus-per-task"),
                                       Not(HasSubstr("fewer ranks"))));
  EXPECT_TRUE(core_shortage(1, 0, {})->impossible);
}

}  // namespace
}  // namespace zf
