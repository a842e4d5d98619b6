#include "launch/thread_counts.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

namespace zf {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

using Variables = std::map<std::string, std::string>;

/// A plan with 8 threads meets these variables.
ThreadCounts counts_for(Variables variables, TorchrunsOne ones = TorchrunsOne::replaced,
                        const std::string& by_outer_exec = "") {
  return thread_counts(8, by_outer_exec, ones, Environment(std::move(variables)));
}

auto all_are(const char* count) {
  return ElementsAre(Pair("MKL_NUM_THREADS", count), Pair("OMP_NUM_THREADS", count),
                     Pair("OPENBLAS_NUM_THREADS", count));
}

TEST(ThreadCounts, ThePlansNumberHoldsWhereNobodySetOne) {
  for (const Variables& variables : {Variables{}, Variables{{"OMP_NUM_THREADS", ""}}}) {
    EXPECT_THAT(counts_for(variables).set, all_are("8"));
    EXPECT_THAT(counts_for(variables).note, IsEmpty());
  }
}

TEST(ThreadCounts, TheUsersNumberForOneHoldsForTheOthers) {
  const ThreadCounts omp = counts_for({{"OMP_NUM_THREADS", "1"}});
  EXPECT_THAT(omp.set, ElementsAre(Pair("MKL_NUM_THREADS", "1"), Pair("OPENBLAS_NUM_THREADS", "1")));
  EXPECT_EQ(
      omp.note,
      "OMP_NUM_THREADS=1 is set already and is kept; MKL_NUM_THREADS and OPENBLAS_NUM_THREADS get 1, too; "
      "the plan has 8");
  EXPECT_THAT(counts_for({{"MKL_NUM_THREADS", "3"}}).set,
              ElementsAre(Pair("OMP_NUM_THREADS", "3"), Pair("OPENBLAS_NUM_THREADS", "3")));
  EXPECT_THAT(counts_for({{"OPENBLAS_NUM_THREADS", "3"}}).set,
              ElementsAre(Pair("MKL_NUM_THREADS", "3"), Pair("OMP_NUM_THREADS", "3")));
  EXPECT_THAT(counts_for({{"OMP_NUM_THREADS", "8"}}).note, IsEmpty()) << "it is the plan's";
}

TEST(ThreadCounts, TwoNumbersOfTheUsersAreBothKeptAndToldInOneLine) {
  const ThreadCounts two = counts_for({{"OMP_NUM_THREADS", "4"}, {"MKL_NUM_THREADS", "8"}});
  EXPECT_THAT(two.set, ElementsAre(Pair("OPENBLAS_NUM_THREADS", "4")));
  EXPECT_EQ(two.note,
            "OMP_NUM_THREADS=4 and MKL_NUM_THREADS=8 are set already and are kept; OPENBLAS_NUM_THREADS gets "
            "4, too; "
            "the plan has 8");
  const ThreadCounts three =
      counts_for({{"OMP_NUM_THREADS", "4"}, {"MKL_NUM_THREADS", "5"}, {"OPENBLAS_NUM_THREADS", "6"}});
  EXPECT_THAT(three.set, IsEmpty());
  EXPECT_EQ(three.note,
            "OMP_NUM_THREADS=4, MKL_NUM_THREADS=5 and OPENBLAS_NUM_THREADS=6 are set already and are kept; "
            "the plan has 8");
}

TEST(ThreadCounts, TheOthersGetTheNumberOfTheOutermostLevel) {
  EXPECT_THAT(counts_for({{"OMP_NUM_THREADS", "4,2"}}).set,
              ElementsAre(Pair("MKL_NUM_THREADS", "4"), Pair("OPENBLAS_NUM_THREADS", "4")));
}

TEST(ThreadCounts, TorchrunsOneGivesWayToThePlanUnlessItIsToBeKept) {
  const Variables torchrun{{"TORCHELASTIC_RUN_ID", "none"}, {"OMP_NUM_THREADS", "1"}};
  const ThreadCounts replaced = counts_for(torchrun);
  EXPECT_THAT(replaced.set, all_are("8"));
  EXPECT_EQ(
      replaced.note,
      "OMP_NUM_THREADS=1 is taken to be torchrun's (--keep-threads keeps it); the plan's 8 threads are used");
  EXPECT_TRUE(replaced.is_for_all_ranks) << "rank 0 says it for all";
  const ThreadCounts kept = counts_for(torchrun, TorchrunsOne::kept);
  EXPECT_THAT(kept.set, ElementsAre(Pair("MKL_NUM_THREADS", "1"), Pair("OPENBLAS_NUM_THREADS", "1")));
  EXPECT_FALSE(kept.is_for_all_ranks);
  const ThreadCounts one = thread_counts(1, "", TorchrunsOne::replaced, Environment(torchrun));
  EXPECT_THAT(one.set, testing::SizeIs(3));
  EXPECT_THAT(one.note, IsEmpty()) << "the plan has 1, too";
}

TEST(ThreadCounts, UnderTorchrunTheUsersOtherNumbersHold) {
  EXPECT_THAT(counts_for({{"TORCHELASTIC_RUN_ID", "none"}, {"OMP_NUM_THREADS", "2"}}).set,
              ElementsAre(Pair("MKL_NUM_THREADS", "2"), Pair("OPENBLAS_NUM_THREADS", "2")));
  const ThreadCounts mkl =
      counts_for({{"TORCHELASTIC_RUN_ID", "none"}, {"OMP_NUM_THREADS", "1"}, {"MKL_NUM_THREADS", "3"}});
  EXPECT_THAT(mkl.set, ElementsAre(Pair("OMP_NUM_THREADS", "3"), Pair("OPENBLAS_NUM_THREADS", "3")));
  EXPECT_EQ(mkl.note,
            "OMP_NUM_THREADS=1 is taken to be torchrun's (--keep-threads keeps it); MKL_NUM_THREADS=3 is set "
            "already and is kept; OMP_NUM_THREADS and OPENBLAS_NUM_THREADS get 3, too; the plan has 8");
  EXPECT_FALSE(mkl.is_for_all_ranks);
}

TEST(ThreadCounts, WhatAnOuterExecHasSetIsNotTheUsers) {
  const Variables outer{{"OMP_NUM_THREADS", "16"}, {"MKL_NUM_THREADS", "16"}, {"OPENBLAS_NUM_THREADS", "16"}};
  EXPECT_THAT(counts_for(outer, TorchrunsOne::replaced, "16").set, all_are("8"));
  EXPECT_THAT(counts_for(outer, TorchrunsOne::replaced, "4").set, IsEmpty());
}

}  // namespace
}  // namespace zf
