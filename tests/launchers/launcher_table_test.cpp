// Tests the table of launchers itself, and that the cases, scripts and pages know its variables.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "environment_with.hpp"
#include "launchers/launcher.hpp"
#include "launchers/local_rank.hpp"
#include "paths.hpp"

namespace zf {
namespace {

std::string text_of(const std::string& path) {
  std::ifstream file(std::string(kSourceDir) + "/" + path);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Returns all variables of the table.
std::vector<std::string> variables() {
  std::vector<std::string> names;
  for (const Launcher& launcher : launchers()) {
    for (const char* name : {launcher.rank, launcher.counts[0], launcher.counts[1], launcher.job[0],
                             launcher.job[1], launcher.asked_count}) {
      if (name != nullptr) names.emplace_back(name);
    }
  }
  return names;
}

TEST(LauncherTable, EachVariableHasACase) {
  const std::string cases = text_of("tests/launchers/cases.json");
  for (const std::string& name : variables()) EXPECT_THAT(cases, testing::HasSubstr('"' + name + "\": "));
}

TEST(LauncherTable, CaptureMachineKeepsEachVariable) {
  const std::string script = text_of("scripts/capture-machine.sh");
  std::smatch list;
  ASSERT_TRUE(std::regex_search(script, list, std::regex("\nlaunchers='(.*)'\n")));
  const std::regex kept("^(" + list[1].str() + ").*");
  for (const std::string& name : variables()) EXPECT_TRUE(std::regex_match(name, kept)) << name;
  for (const char* name : {"ZF_RANK", "ZF_RANK_FROM"}) EXPECT_TRUE(std::regex_match(name, kept)) << name;
}

TEST(LauncherTable, ThePageNamesEachVariable) {
  const std::string text = text_of("docs/launch.md");
  for (const std::string& name : variables()) EXPECT_THAT(text, testing::HasSubstr(name));
}

TEST(LauncherTable, LauncherOfAVariable) {
  EXPECT_EQ(launcher_of("LOCAL_SIZE"), launcher_of("LOCAL_RANK"));
  EXPECT_EQ(launcher_of("FLUX_JOB_SIZE / FLUX_JOB_NNODES"), launcher_of("FLUX_TASK_LOCAL_ID"));
  for (const char* other : {"", "ZF_RANK", "--rank", "CUDA_VISIBLE_DEVICES"})
    EXPECT_EQ(launcher_of(other), nullptr) << other;
}

TEST(LauncherTable, ACountIsThatOfTheNodeAlsoWithoutARank) {
  for (const char* name : {"LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS",
                           "MV2_COMM_WORLD_LOCAL_SIZE", "PMI_LOCAL_SIZE", "SLURM_NTASKS_PER_NODE"}) {
    const auto count = local_rank_count(environment_with({{name, "8"}, {"CUDA_VISIBLE_DEVICES", "0"}}));
    ASSERT_TRUE(count) << name;
    EXPECT_EQ(count->value, 8);
    EXPECT_EQ(count->variable, name);
    EXPECT_FALSE(launched_ranks(environment_with({{name, "8"}}))) << "there is no rank";
  }
  EXPECT_THROW(local_rank_count(environment_with({{"LOCAL_WORLD_SIZE", "0"}})), Error);
  EXPECT_THROW(local_rank_count(environment_with({{"SLURM_NTASKS_PER_NODE", "4(x2)"}})), Error);
}

TEST(LauncherTable, HiddenDevicesAreNoCount) {
  EXPECT_FALSE(local_rank_count(environment_with({{"CUDA_VISIBLE_DEVICES", "-1"}})));
  const auto count = local_rank_count(environment_with({{"ROCR_VISIBLE_DEVICES", "0,1,2"}}));
  ASSERT_TRUE(count);
  EXPECT_EQ(count->value, 3);
  EXPECT_EQ(count->variable, "ROCR_VISIBLE_DEVICES");
}

TEST(LauncherTable, ALaunchersRankNamesStepAndJob) {
  EXPECT_EQ(launchers_rank(environment_with({{"LOCAL_RANK", "03"}})), "LOCAL_RANK=3");
  EXPECT_EQ(launchers_rank(
                environment_with({{"SLURM_LOCALID", "0"}, {"SLURM_STEP_ID", "2"}, {"SLURM_JOB_ID", "4711"}})),
            "SLURM_LOCALID=0 SLURM_STEP_ID=2 SLURM_JOB_ID=4711");
  EXPECT_EQ(launchers_rank(environment_with({{"FLUX_TASK_LOCAL_ID", "1"}, {"FLUX_JOB_ID", "f7"}})),
            "FLUX_TASK_LOCAL_ID=1 FLUX_JOB_ID=f7");
  EXPECT_EQ(launchers_rank(environment_with({{"SLURM_JOB_ID", "7"}, {"SLURM_LOCALID", "0"}})), "")
      << "a batch script";
}

}  // namespace
}  // namespace zf
