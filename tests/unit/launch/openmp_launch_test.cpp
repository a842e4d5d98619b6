// Tests what exec does with variables by which OpenMP would bind the job again, and what it says.
#include "launch/openmp_launch.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/cpu_list.hpp"

namespace zf {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const Environment kModules({{"OMP_PROC_BIND", "close"}, {"OMP_PLACES", "cores"}, {"OMP_NUM_THREADS", "4"}});

Launch settled(OpenmpVariables choice, const Environment& environment, int rank = 0,
               const char* home = "0-3") {
  Launch launch;
  launch.rank = rank;
  launch.rank_source = "LOCAL_RANK";
  launch.cpus = parse_cpu_list(home, "test");
  settle_openmp(launch, choice, environment);
  return launch;
}

TEST(OpenmpLaunch, VariablesThatBindAreTakenOutAndRankZeroSaysSoInOneLine) {
  const Launch launch = settled(OpenmpVariables::removed, kModules);
  EXPECT_THAT(launch.unset, ElementsAre("OMP_PROC_BIND", "OMP_PLACES"));
  EXPECT_THAT(
      launch.notes,
      ElementsAre(AllOf(HasSubstr("OMP_PROC_BIND=close and OMP_PLACES=cores are taken out of the job's "
                                  "environment"),
                        HasSubstr("--omp keep"))));
  EXPECT_THAT(describe(launch, {"true"}), HasSubstr("unset OMP_PROC_BIND\nunset OMP_PLACES\n"));
  const Launch other = settled(OpenmpVariables::removed, kModules, 1);
  EXPECT_EQ(other.unset, launch.unset);
  EXPECT_THAT(other.notes, IsEmpty());
}

TEST(OpenmpLaunch, KeptVariablesAreSaidWithWhatTheyDo) {
  const Launch launch = settled(OpenmpVariables::kept, kModules);
  EXPECT_THAT(launch.unset, IsEmpty());
  EXPECT_THAT(launch.notes, ElementsAre(AllOf(HasSubstr("OMP_PROC_BIND=close is kept"),
                                              HasSubstr("data loaders and autograd threads inherit"),
                                              HasSubstr("bound to CPUs 0-3"))));
}

TEST(OpenmpLaunch, APlaceThatHoldsOneHomeAndNotAnotherIsSaidByTheRankThatLosesIt) {
  const Environment place(std::map<std::string, std::string>{{"OMP_PLACES", "{0:4}"}});
  EXPECT_THAT(settled(OpenmpVariables::removed, place).notes, IsEmpty());
  const Launch other = settled(OpenmpVariables::removed, place, 1, "4-7");
  EXPECT_THAT(other.unset, ElementsAre("OMP_PLACES"));
  EXPECT_THAT(other.notes, ElementsAre(HasSubstr("OMP_PLACES={0:4} is taken out")));
  EXPECT_THAT(settled(OpenmpVariables::kept, place, 1, "4-7").notes,
              ElementsAre(HasSubstr("OMP_PLACES={0:4} is kept")));
}

TEST(OpenmpLaunch, ThePluginNamesTheOptionOfSrun) {
  Launch launch = settled(OpenmpVariables::removed, Environment());
  settle_openmp(launch, OpenmpVariables::removed, kModules, LaunchedBy::plugin);
  EXPECT_THAT(launch.notes, ElementsAre(HasSubstr("; srun --zf-tune=omp=keep keeps them")));
}

TEST(OpenmpLaunch, WhatBindsNothingIsNotTouched) {
  const Launch launch = settled(OpenmpVariables::removed,
                                Environment(std::map<std::string, std::string>{{"OMP_PLACES", "{0:4}"}}));
  EXPECT_THAT(launch.unset, IsEmpty());
  EXPECT_THAT(launch.notes, IsEmpty());
  Launch unbound;
  settle_openmp(unbound, OpenmpVariables::removed, kModules);
  EXPECT_THAT(unbound.unset, IsEmpty()) << "a process that is bound to nothing has no binding to undo";
}

}  // namespace
}  // namespace zf
