// The cases of cases.json, against the rules in C++.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "base/error.hpp"
#include "launchers/launcher.hpp"
#include "launchers/local_rank.hpp"
#include "paths.hpp"

namespace zf {
namespace {

using Json = nlohmann::json;
using testing::HasSubstr;

/// Returns one part of cases.json. Throws if the file does not have it.
Json read_part(const char* name) {
  return Json::parse(std::ifstream(std::string(kSourceDir) + "/tests/launchers/cases.json")).at(name);
}

Environment environment_of(const Json& test) {
  return Environment(test.at("environment").get<std::map<std::string, std::string>>());
}

/// Returns a number and its variable as a case has them: null if there is none.
Json as_json(const std::optional<EnvNumber>& number) {
  return number ? Json{{"value", number->value}, {"variable", number->variable}} : Json();
}

/// Returns what a case expects under two of its keys.
Json expected(const Json& test, const char* value, const char* variable) {
  return test.contains(value) ? Json{{"value", test.at(value)}, {"variable", test.at(variable)}} : Json();
}

/// Returns the message of the Error that launched_ranks() throws; empty if it throws none.
std::string error_of(const Environment& environment) {
  try {
    launched_ranks(environment);
  } catch (const Error& error) {
    EXPECT_EQ(error.exit(), Exit::usage);
    return error.what();
  }
  return {};
}

TEST(LauncherCases, GiveRankCountAndSource) {
  for (const Json& test : read_part("cases")) {
    SCOPED_TRACE(test.at("name"));
    const Environment environment = environment_of(test);
    if (test.contains("error")) {
      EXPECT_THAT(error_of(environment), HasSubstr(test.at("error")));
      continue;
    }
    EXPECT_EQ(as_json(local_rank(environment)), expected(test, "rank", "source"));
    EXPECT_EQ(as_json(launched_ranks(environment)), expected(test, "count", "count_source"));
    if (!test.contains("node_count")) continue;
    const auto node = local_rank_count(environment);
    EXPECT_EQ(node ? Json(node->value) : Json(), test.at("node_count"));
  }
}

TEST(LauncherCases, BrokenListsOfSlurmGiveNoCount) {
  for (const Json& list : read_part("broken_lists")) {
    for (const char* node : {"0", "1"}) {
      const Environment environment(std::map<std::string, std::string>{
          {"SLURM_LOCALID", "0"}, {"SLURM_NODEID", node}, {"SLURM_STEP_TASKS_PER_NODE", list}});
      EXPECT_FALSE(launched_ranks(environment)) << list << " on node " << node;
    }
  }
}

TEST(LauncherCases, AreInTheOrderOfTheTable) {
  std::vector<std::string> ranks;
  for (const Launcher& launcher : launchers()) ranks.emplace_back(launcher.rank);
  EXPECT_EQ(Json(ranks), read_part("order"));
}

}  // namespace
}  // namespace zf
