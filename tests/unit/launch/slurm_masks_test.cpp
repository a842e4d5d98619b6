#include "launch/slurm_masks.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/cpu_list.hpp"

namespace zf {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<std::string> masks(const char* type, const char* list) {
  std::vector<std::string> lists;
  for (const CpuSet& mask :
       slurm_masks(Environment({{"SLURM_CPU_BIND_TYPE", type}, {"SLURM_CPU_BIND_LIST", list}}))) {
    lists.push_back(print(mask));
  }
  return lists;
}

TEST(SlurmMasks, AreReadAsSlurmWritesThem) {
  EXPECT_THAT(masks("mask_cpu:", "0x0F,0xF0"), ElementsAre("0-3", "4-7"));
  EXPECT_THAT(masks("mask_cpu:", "1,2"), ElementsAre("0", "1"));
  EXPECT_THAT(masks("mask_cpu:", "0xC0000000000000000001,0x2"), ElementsAre("0,78-79", "1"));
  EXPECT_THAT(masks("map_cpu:", "7,0x10"), ElementsAre("7", "16"));
}

TEST(SlurmMasks, WhatIsNoneIsNone) {
  EXPECT_THAT(masks("none", ""), IsEmpty());
  EXPECT_THAT(masks("rank", ""), IsEmpty());
  EXPECT_THAT(slurm_masks(Environment()), IsEmpty());
  for (const char* broken : {"", "0x", "0xG", "0x1,", "0x0", ",0x1", "-1"}) {
    EXPECT_THAT(masks("mask_cpu:", broken), testing::AnyOf(IsEmpty(), ElementsAre("0"))) << broken;
  }
}

TEST(SlurmMasks, AreARanksOwnOnlyWhereAllAre) {
  const auto set = [](const char* list) { return parse_cpu_list(list, "test"); };
  const auto own = [&](const std::vector<CpuSet>& masks, int rank, const char* seen) {
    return masks_are_in_force(masks, 2, rank, set(seen), set("0-7"));
  };
  EXPECT_TRUE(own({set("0-3"), set("4-7")}, 1, "4-7"));
  EXPECT_TRUE(own({set("0-3"), set("4-9")}, 1, "4-7")) << "the job has no more";
  EXPECT_FALSE(own({set("0-3"), set("4-7")}, 0, "0-7")) << "no rank obeys them";
  EXPECT_FALSE(own({set("0-3"), set("4-7")}, 1, "4-5")) << "narrowed once more";
  EXPECT_TRUE(own({set("0-3"), set("3-7")}, 1, "3-7")) << "one CPU of both";
  EXPECT_TRUE(own({set("0-3"), set("0-3")}, 1, "0-3"));
  EXPECT_FALSE(own({set("0-7")}, 1, "0-7")) << "torchrun's ranks within one task";
}

TEST(SlurmMasks, AreUsedAgainByMoreTasks) {
  const std::vector<CpuSet> two{parse_cpu_list("0-3", "test"), parse_cpu_list("4-7", "test")};
  EXPECT_THAT(masks_of_tasks(two, 5), ElementsAre(two[0], two[1], two[0], two[1], two[0]));
  EXPECT_THAT(masks_of_tasks(two, 1), ElementsAre(two[0]));
  EXPECT_THAT(masks_of_tasks({}, 2), IsEmpty());
}

}  // namespace
}  // namespace zf
