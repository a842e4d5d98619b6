#include "os/environment.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include "base/error.hpp"

namespace zf {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

Environment with(std::map<std::string, std::string> variables) { return Environment(std::move(variables)); }

TEST(Environment, RankOfEachLauncher) {
  for (const char* name :
       {"ZF_RANK", "LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID",
        "MV2_COMM_WORLD_LOCAL_RANK", "PMI_LOCAL_RANK", "PALS_LOCAL_RANKID"}) {
    const auto rank = local_rank(with({{name, "3"}, {"RANK", "11"}}));
    ASSERT_TRUE(rank) << name;
    EXPECT_EQ(rank->value, 3);
    EXPECT_EQ(rank->variable, name);
  }
  EXPECT_FALSE(local_rank(with({{"RANK", "11"}, {"LOCAL_RANK", ""}})));
}

TEST(Environment, TorchrunInsideSlurmIsBelieved) {
  const auto rank = local_rank(with({{"SLURM_LOCALID", "0"}, {"LOCAL_RANK", "5"}}));
  ASSERT_TRUE(rank);
  EXPECT_EQ(rank->value, 5);
}

TEST(Environment, NonsenseRankIsNamed) {
  for (const char* value : {"-1", "a", "1x", "0x1", "99999999999"}) {
    try {
      local_rank(with({{"SLURM_LOCALID", value}}));
      FAIL() << value;
    } catch (const Error& error) {
      EXPECT_EQ(error.exit(), Exit::usage);
      EXPECT_THAT(error.what(), AllOf(HasSubstr("SLURM_LOCALID"), HasSubstr(value)));
    }
  }
}

TEST(Environment, CountOfEachLauncher) {
  for (const char* name :
       {"SLURM_NTASKS_PER_NODE", "LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"}) {
    const auto count = local_rank_count(with({{name, "8"}, {"CUDA_VISIBLE_DEVICES", "0"}}));
    ASSERT_TRUE(count) << name;
    EXPECT_EQ(count->value, 8);
    EXPECT_EQ(count->variable, name);
  }
  EXPECT_THROW(local_rank_count(with({{"LOCAL_WORLD_SIZE", "0"}})), Error);
  EXPECT_THROW(local_rank_count(with({{"SLURM_NTASKS_PER_NODE", "4(x2)"}})), Error);
  EXPECT_FALSE(local_rank_count(with({{"SLURM_TASKS_PER_NODE", "4(x2)"}, {"WORLD_SIZE", "64"}})));
}

TEST(Environment, VisibleDevicesAreCounted) {
  const auto ids = [](const char* text) {
    const auto devices = visible_devices(with({{"CUDA_VISIBLE_DEVICES", text}}));
    return devices ? devices->ids : std::vector<std::string>{"absent"};
  };
  EXPECT_THAT(ids("0,1"), ElementsAre("0", "1"));
  EXPECT_THAT(ids("GPU-8932f937, GPU-5"), ElementsAre("GPU-8932f937", "GPU-5"));
  EXPECT_THAT(ids("3,-1,2"), ElementsAre("3")) << "the driver stops at the first invalid entry";
  for (const char* none : {"", "-1", "NoDevFiles"}) EXPECT_THAT(ids(none), ElementsAre()) << none;
  EXPECT_FALSE(visible_devices(Environment()));
}

TEST(Environment, HipCountsWithinWhatRocrLeaves) {
  const auto ids = [](const char* rocr, const char* hip) {
    return visible_devices(with({{"ROCR_VISIBLE_DEVICES", rocr}, {"HIP_VISIBLE_DEVICES", hip}}))->ids;
  };
  EXPECT_THAT(ids("4,6,7", "2,0"), ElementsAre("7", "4"));
  EXPECT_THAT(ids("4,6", "1,2,0"), ElementsAre("6")) << "the list ends at what is not there";
  EXPECT_THAT(ids("", "0"), ElementsAre());
  EXPECT_THAT(ids("4,6,7", "GPU-7,0"), ElementsAre("GPU-7", "4"));
}

TEST(Environment, OnGpusOfAmdCudasListCountsWithinThatOfRocr) {
  const auto seen = [](std::map<std::string, std::string> variables) {
    const auto devices = visible_devices(with(std::move(variables)), GpuRuntime::hip);
    return devices ? devices->ids : std::vector<std::string>{"all"};
  };
  EXPECT_THAT(seen({{"ROCR_VISIBLE_DEVICES", "4,6,7"}, {"CUDA_VISIBLE_DEVICES", "2,0"}}),
              ElementsAre("7", "4"));
  EXPECT_THAT(
      seen(
          {{"ROCR_VISIBLE_DEVICES", "4,6,7"}, {"CUDA_VISIBLE_DEVICES", "2,0"}, {"HIP_VISIBLE_DEVICES", "1"}}),
      ElementsAre("6"))
      << "HIP's own name comes first";
  EXPECT_THAT(seen({{"CUDA_VISIBLE_DEVICES", "2,0"}, {"HIP_VISIBLE_DEVICES", ""}}), ElementsAre("2", "0"));
  EXPECT_THAT(seen({{"ROCR_VISIBLE_DEVICES", "4,6"}, {"CUDA_VISIBLE_DEVICES", ""}}), ElementsAre("4", "6"))
      << "an empty list of HIP hides nothing";
  EXPECT_THAT(seen({{"CUDA_VISIBLE_DEVICES", "-1"}}), ElementsAre());
  EXPECT_THAT(seen({{"CUDA_VISIBLE_DEVICES", ""}}), ElementsAre("all"));
  const auto of_nvidia =
      visible_devices(with({{"ROCR_VISIBLE_DEVICES", "2,3"}, {"CUDA_VISIBLE_DEVICES", "2,3"}}));
  EXPECT_THAT(of_nvidia->ids, ElementsAre("2", "3")) << "Slurm may set both; CUDA knows only its own";
}

TEST(Environment, HiddenDevicesAreNoCount) {
  EXPECT_FALSE(local_rank_count(with({{"CUDA_VISIBLE_DEVICES", "-1"}})));
  const auto count = local_rank_count(with({{"ROCR_VISIBLE_DEVICES", "0,1,2"}}));
  ASSERT_TRUE(count);
  EXPECT_EQ(count->value, 3);
  EXPECT_EQ(count->variable, "ROCR_VISIBLE_DEVICES");
}

int ranks_launched(std::map<std::string, std::string> variables) {
  const auto count = launched_ranks(with(std::move(variables)));
  return count ? count->value : 0;
}

TEST(Environment, TheLauncherOfTheRankCountsTheRanks) {
  EXPECT_EQ(ranks_launched({{"LOCAL_RANK", "1"}, {"LOCAL_WORLD_SIZE", "4"}}), 4);
  EXPECT_EQ(ranks_launched({{"LOCAL_RANK", "1"}, {"LOCAL_SIZE", "2"}}), 2) << "DeepSpeed";
  EXPECT_EQ(ranks_launched({{"OMPI_COMM_WORLD_LOCAL_RANK", "1"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "3"}}), 3);
  EXPECT_EQ(ranks_launched({{"LOCAL_WORLD_SIZE", "4"}}), 0) << "there is no rank";
  EXPECT_EQ(ranks_launched({{"LOCAL_RANK", "0"},
                            {"SLURM_LOCALID", "0"},
                            {"SLURM_STEP_TASKS_PER_NODE", "1"},
                            {"SLURM_NODEID", "0"}}),
            0)
      << "torchrun's ranks within one task";
}

TEST(Environment, SlurmCountsTheTasksOfEachNode) {
  const auto on_node = [](const char* node, const char* counts) {
    return ranks_launched(
        {{"SLURM_LOCALID", "0"}, {"SLURM_NODEID", node}, {"SLURM_STEP_TASKS_PER_NODE", counts}});
  };
  EXPECT_EQ(on_node("0", "2"), 2);
  EXPECT_EQ(on_node("0", "4(x2),1"), 4);
  EXPECT_EQ(on_node("1", "4(x2),1"), 4);
  EXPECT_EQ(on_node("2", "4(x2),1"), 1);
  EXPECT_EQ(on_node("3", "4(x2),1,8"), 8);
  EXPECT_EQ(on_node("4", "4(x2),1,8"), 0) << "there is no such node";
  for (const char* broken : {"", ",", "x", "4(", "4(x", "4(x2", "0", "-1", "4;1", "4(x0),1", "4(x-1),1",
                             "4(x-2147483648),1", "4(x99999999999),7"})
    EXPECT_EQ(on_node("1", broken), 0) << broken;
}

TEST(Environment, ALauncherBelowExecNamesTheRanksAnew) {
  const auto rank = [](std::map<std::string, std::string> variables) {
    return local_rank(with(std::move(variables)))->variable;
  };
  EXPECT_EQ(rank({{"ZF_RANK", "1"}, {"LOCAL_RANK", "0"}}), "ZF_RANK") << "set by hand";
  EXPECT_EQ(rank({{"ZF_RANK", "1"}, {"ZF_RANK_FROM", "LOCAL_RANK=0"}, {"LOCAL_RANK", "0"}}), "ZF_RANK");
  EXPECT_EQ(rank({{"ZF_RANK", "0"}, {"ZF_RANK_FROM", ""}}), "ZF_RANK");
  EXPECT_EQ(rank({{"ZF_RANK", "0"}, {"ZF_RANK_FROM", ""}, {"LOCAL_RANK", "3"}}), "LOCAL_RANK");
  EXPECT_EQ(rank({{"ZF_RANK", "1"},
                  {"ZF_RANK_FROM", "SLURM_LOCALID=0"},
                  {"SLURM_LOCALID", "0"},
                  {"SLURM_STEP_ID", "0"}}),
            "SLURM_LOCALID")
      << "a step that was started in a batch script under exec";
  EXPECT_EQ(rank({{"ZF_RANK", "0"},
                  {"ZF_RANK_FROM", "SLURM_LOCALID=0"},
                  {"SLURM_LOCALID", "0"},
                  {"LOCAL_RANK", "3"}}),
            "LOCAL_RANK")
      << "torchrun in one of Slurm's tasks";
}

TEST(Environment, ABatchScriptIsNoRank) {
  std::map<std::string, std::string> variables{
      {"SLURM_JOB_ID", "7"}, {"SLURM_LOCALID", "0"}, {"SLURM_NODEID", "0"}, {"SLURM_TASKS_PER_NODE", "8"}};
  EXPECT_FALSE(local_rank(with(variables)));
  EXPECT_EQ(launchers_rank(with(variables)), "");
  EXPECT_EQ(ranks_launched(variables), 0);
  variables["SLURM_STEP_ID"] = "0";
  EXPECT_EQ(local_rank(with(variables))->variable, "SLURM_LOCALID") << "a task of a step";
}

TEST(Environment, ARankThatAScriptCopiedToLocalRankIsCountedByItsLauncher) {
  const auto in_step = [](const char* local_rank, const char* tasks) {
    return ranks_launched({{"LOCAL_RANK", local_rank},
                           {"SLURM_JOB_ID", "7"},
                           {"SLURM_STEP_ID", "0"},
                           {"SLURM_LOCALID", "1"},
                           {"SLURM_NODEID", "0"},
                           {"SLURM_STEP_TASKS_PER_NODE", tasks}});
  };
  EXPECT_EQ(in_step("1", "4"), 4);
  EXPECT_EQ(in_step("0", "4"), 0) << "it is not Slurm's rank";
  EXPECT_EQ(in_step("1", "1"), 0) << "one task, which may have started several ranks";
  for (const auto& [rank, count] : {std::pair("OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"),
                                    std::pair("MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
                                    std::pair("MV2_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_SIZE"),
                                    std::pair("PMI_LOCAL_RANK", "PMI_LOCAL_SIZE")}) {
    EXPECT_EQ(ranks_launched({{"LOCAL_RANK", "2"}, {rank, "2"}, {count, "3"}}), 3) << rank;
    EXPECT_EQ(ranks_launched({{"LOCAL_RANK", "2"}, {rank, "0"}, {count, "3"}}), 0) << rank;
  }
  EXPECT_EQ(ranks_launched({{"LOCAL_RANK", "0"},
                            {"LOCAL_WORLD_SIZE", "2"},
                            {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
                            {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}}),
            2)
      << "torchrun's own count comes first";
}

TEST(Environment, RanksOfMpiAreNotTheBatchScripts) {
  const std::map<std::string, std::string> variables{{"SLURM_LOCALID", "0"},
                                                     {"SLURM_NODEID", "0"},
                                                     {"SLURM_STEP_TASKS_PER_NODE", "1"},
                                                     {"OMPI_COMM_WORLD_LOCAL_RANK", "3"},
                                                     {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}};
  EXPECT_EQ(local_rank(with(variables))->value, 3);
  EXPECT_EQ(ranks_launched(variables), 4);
}

TEST(Environment, OfThisProcess) {
  ::setenv("ZF_TEST_VARIABLE", "a=b", 1);
  EXPECT_EQ(Environment::of_this_process().get("ZF_TEST_VARIABLE"), "a=b");
  ::unsetenv("ZF_TEST_VARIABLE");
  EXPECT_FALSE(Environment::of_this_process().get("ZF_TEST_VARIABLE"));
}

}  // namespace
}  // namespace zf
