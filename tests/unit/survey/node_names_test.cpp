#include "survey/node_names.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "base/error.hpp"
#include "base/format.hpp"

namespace zf {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Names = std::vector<std::string>;

TEST(NodeNames, AreFoldedAsSlurmDoes) {
  EXPECT_EQ(folded_names({"gpu003", "gpu001", "gpu002", "gpu606"}), "gpu[001-003,606]");
  EXPECT_EQ(folded_names({"n9", "n10", "n11"}), "n[9-11]");
  EXPECT_EQ(folded_names({"gpu999", "gpu1000", "gpu007"}), "gpu[007,999-1000]");
  EXPECT_EQ(folded_names({"login", "r1n1.site", "r1n2.site"}), "login,r1n[1-2].site");
  EXPECT_EQ(folded_names({"n01", "n1"}), "n1,n01");
  EXPECT_EQ(folded_names({}), "");
}

TEST(NodeNames, AreUnfolded) {
  EXPECT_THAT(unfolded_names("gpu[001-003,010],login1", "x"),
              ElementsAre("gpu001", "gpu002", "gpu003", "gpu010", "login1"));
  EXPECT_THAT(unfolded_names("r[1-2]n[1-2]", "x"), ElementsAre("r1n1", "r1n2", "r2n1", "r2n2"));
  EXPECT_THAT(unfolded_names(" a\nb  a,", "x"), ElementsAre("a", "b"));
}

TEST(NodeNames, FoldedAndUnfoldedAreTheSameAgain) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    Names names;
    const std::size_t width = random() % 4;
    for (int i = 0; i < 40; ++i)
      names.push_back(format_text("{}{:0{}}{}", random() % 2 == 0 ? "gpu" : "r2-n", random() % 2000, width,
                                  random() % 2 == 0 ? "" : ".local"));
    std::sort(names.begin(), names.end());
    names.erase(std::unique(names.begin(), names.end()), names.end());
    EXPECT_EQ(unfolded_names(folded_names(names), "x"), names) << folded_names(names);
  }
}

TEST(NodeNames, ThatAreNoneAreRefusedWithThePart) {
  for (const auto& [list, words] : std::vector<std::pair<std::string, std::string>>{
           {"gpu[1-", "has no ] for its ["},
           {"gpu[3-1]", "runs backwards"},
           {"gpu[a-b]", "no range like"},
           {"gpu[]", "no range like"},
           {"../etc/passwd", "is no name of a node"},
           {"-rf", "is no name of a node"},
           {"n[0-999999]", "more than 100000 names"},
           {"n[1-999999999]x[1-999999999]", "more than 100000 names"}}) {
    try {
      unfolded_names(list, "--nodes");
      ADD_FAILURE() << list;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr(words));
      EXPECT_THAT(error.what(), HasSubstr("--nodes: "));
    }
  }
}

}  // namespace
}  // namespace zf
