// Tests that variables by which OpenMP would undo a binding are found, and that values which agree with it
// are not.
#include "launchers/openmp_variables.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "base/cpu_list.hpp"
#include "environment_with.hpp"

namespace zf {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

using Variables = std::map<std::string, std::string>;

/// Returns the variables that must be taken out of a process on CPUs 0-3.
std::vector<std::string> unset(const Variables& variables) {
  return openmp_variables_to_unset(environment_with(variables), {parse_cpu_list("0-3", "test")});
}

TEST(OpenmpVariables, EachOfTheFourBindsByItself) {
  for (const char* const bind : {"close", "spread", "true", "master", " Spread,close", "TRUE"})
    EXPECT_THAT(unset({{"OMP_PROC_BIND", bind}}), ElementsAre("OMP_PROC_BIND")) << bind;
  for (const char* const places : {"cores", "threads", "sockets", "{0},{1}", "{0:2}", "{0}:4", "{1,2,3}",
                                   "{0:4", "{0:x}", "{!0}", "{0:-4}", "{}", "{4:4}", "{99999999999}"})
    EXPECT_THAT(unset({{"OMP_PLACES", places}}), ElementsAre("OMP_PLACES")) << places;
  for (const char* const gomp : {"0", "0-3", "0 2"})
    EXPECT_THAT(unset({{"GOMP_CPU_AFFINITY", gomp}}), ElementsAre("GOMP_CPU_AFFINITY")) << gomp;
  for (const char* const kmp :
       {"compact", "granularity=fine,Compact,1,0", "explicit,proclist=[0]", "balanced"})
    EXPECT_THAT(unset({{"KMP_AFFINITY", kmp}}), ElementsAre("KMP_AFFINITY")) << kmp;
}

TEST(OpenmpVariables, ValuesThatAgreeWithThePlanStay) {
  for (const Variables& variables :
       {Variables{},
        Variables{{"OMP_PROC_BIND", "false"}},
        {{"OMP_PROC_BIND", "FALSE "}},
        {{"OMP_PROC_BIND", "false"}, {"OMP_PLACES", "cores"}, {"GOMP_CPU_AFFINITY", "0"}},
        {{"OMP_PLACES", "{0:4}"}},
        {{"OMP_PLACES", " {0, 1,2:2} "}},
        {{"OMP_PLACES", "{0:8}"}},
        {{"OMP_PLACES", "{0:2:2,1:2:2}"}},
        {{"OMP_PLACES", "{0:4}"}, {"OMP_PROC_BIND", "close"}},
        {{"KMP_AFFINITY", "none"}},
        {{"KMP_AFFINITY", "verbose,disabled"}},
        {{"KMP_AFFINITY", "granularity=fine,noreset"}},
        {{"OMP_PROC_BIND", ""}, {"OMP_PLACES", ""}, {"GOMP_CPU_AFFINITY", ""}}})
    EXPECT_THAT(unset(variables), IsEmpty()) << testing::PrintToString(variables);
}

TEST(OpenmpVariables, WhatBindsGoesTogetherAndWhatSwitchesBindingOffStays) {
  EXPECT_THAT(unset({{"OMP_PROC_BIND", "close"}, {"OMP_PLACES", "cores"}, {"KMP_AFFINITY", "none"}}),
              ElementsAre("OMP_PROC_BIND", "OMP_PLACES"))
      << "OMP_PLACES alone would bind under libgomp";
  EXPECT_THAT(unset({{"OMP_PROC_BIND", "false"}, {"OMP_PLACES", "cores"}, {"KMP_AFFINITY", "compact"}}),
              ElementsAre("KMP_AFFINITY"))
      << "Intel's runtime prefers its own variable";
  EXPECT_THAT(unset({{"GOMP_CPU_AFFINITY", "0"}, {"OMP_PLACES", "{0:4}"}, {"KMP_AFFINITY", "compact"}}),
              ElementsAre("OMP_PLACES", "GOMP_CPU_AFFINITY", "KMP_AFFINITY"));
}

TEST(OpenmpVariables, APlaceMayBeTheHomeOfAnyRankAndAnyPlaceWillDoWithoutAPlan) {
  const Environment second = environment_with({{"OMP_PLACES", "{4:4}"}});
  EXPECT_THAT(openmp_bindings(second, {parse_cpu_list("0-3", "test"), parse_cpu_list("4-7", "test")}),
              IsEmpty());
  EXPECT_THAT(openmp_bindings(second, {}), IsEmpty());
  EXPECT_EQ(openmp_bindings(environment_with({{"OMP_PLACES", "{4},{5}"}}), {}).size(), 1U);
}

}  // namespace
}  // namespace zf
