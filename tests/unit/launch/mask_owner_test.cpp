#include "launch/mask_owner.hpp"

#include <gtest/gtest.h>

#include "base/cpu_list.hpp"

namespace zf {
namespace {

constexpr const char* kSlurmCount = "SLURM_STEP_TASKS_PER_NODE";

/// Returns, by sees_cpus_of_slurm_job(), which CPUs a rank sees that has 0-3 of the job's CPUs `of_job`.
bool of_job(std::map<std::string, std::string> variables, const std::string& rank, const std::string& count,
            const char* of_job = "0-15") {
  return sees_cpus_of_slurm_job(Environment(std::move(variables)), rank, count, parse_cpu_list("0-3", "test"),
                                parse_cpu_list(of_job, "test"));
}

TEST(MaskOwner, OutsideSlurmNobodyKnows) {
  EXPECT_FALSE(of_job({}, "LOCAL_RANK", "LOCAL_WORLD_SIZE"));
  EXPECT_FALSE(of_job({}, "LOCAL_RANK", "LOCAL_WORLD_SIZE", "0-3"));
}

TEST(MaskOwner, WithoutAMaskTheCpusAreTheSteps) {
  for (const char* rank : {"SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK", "LOCAL_RANK"})
    EXPECT_TRUE(of_job({{"SLURM_JOB_ID", "7"}}, rank, "", "0-3")) << rank;
}

TEST(MaskOwner, RanksThatMpirunBindsInsideAJobHaveTheirMasksAlone) {
  const std::pair<const char*, const char*> launchers[] = {
      {"OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"},
      {"MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
      {"MV2_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_SIZE"},
      {"PMI_LOCAL_RANK", "PMI_LOCAL_SIZE"},
      {"PALS_LOCAL_RANKID", ""},
      {"JSM_NAMESPACE_LOCAL_RANK", "JSM_NAMESPACE_LOCAL_SIZE"},
      {"FLUX_TASK_LOCAL_ID", "FLUX_JOB_SIZE / FLUX_JOB_NNODES"},
      {"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"}};
  for (const auto& [rank, count] : launchers) {
    EXPECT_FALSE(of_job({{"SLURM_JOB_ID", "7"}, {"SLURM_CPUS_ON_NODE", "16"}}, rank, count)) << rank;
    EXPECT_FALSE(of_job({{"SLURM_JOB_ID", "7"}}, rank, count)) << rank;
    EXPECT_TRUE(of_job({{"SLURM_JOB_ID", "7"}, {"SLURM_CPUS_ON_NODE", "4"}}, rank, count))
        << rank << " has all CPUs of the job, which Slurm confines by masks alone";
  }
}

TEST(MaskOwner, AMaskThatSlurmDoesNotNameMayBeOneTasks) {
  for (const char* type : {"rank", "rank_ldom", "map_ldom:", "mask_ldom:"}) {
    EXPECT_FALSE(of_job({{"SLURM_JOB_ID", "7"}, {"SLURM_CPU_BIND_TYPE", type}}, "SLURM_LOCALID", kSlurmCount))
        << type;
    EXPECT_TRUE(
        of_job({{"SLURM_JOB_ID", "7"}, {"SLURM_CPU_BIND_TYPE", type}}, "LOCAL_RANK", "LOCAL_WORLD_SIZE"))
        << type << ": torchrun's ranks share the mask of their task";
  }
  for (const char* type : {"none", "", "mask_cpu:", "map_cpu:"})
    EXPECT_TRUE(of_job({{"SLURM_JOB_ID", "7"}, {"SLURM_CPU_BIND_TYPE", type}}, "SLURM_LOCALID", kSlurmCount))
        << type;
}

}  // namespace
}  // namespace zf
