#include "survey/node_features.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "base/format.hpp"

namespace zf {
namespace {

using testing::ElementsAre;

TEST(NodeFeatures, AreReadAsSinfoPrintsThem) {
  const NodeFeatures read = parse_node_features("gpu001 a100,ib\ngpu[002-003] (null)\nlogin1\n", "x");
  EXPECT_EQ(read.size(), 4U);
  EXPECT_THAT(read.at("gpu001"), ElementsAre("a100", "ib"));
  EXPECT_TRUE(read.at("gpu003").empty());
  EXPECT_THROW(parse_node_features("gpu001 a;reboot\n", "x"), Error);
  EXPECT_THROW(parse_node_features("gpu001;reboot a\n", "x"), Error);
}

TEST(NodeFeatures, KeepThoseOfOthersAndReplaceOurs) {
  Survey survey;
  survey.classes.resize(1);
  survey.classes[0].machine.fingerprint = "0123456789abcdef";
  survey.classes[0].names = "n[1-4]";
  survey.odd = {{"n4", "0123456789abcdef", {"it has 61 % of its class's bandwidth"}}};
  const NodeFeatures present = parse_node_features(
      "n1 ib,zf-aaaaaaaaaaaaaaaa\nn2 ib\nn3 zf-0123456789abcdef\nn4 zf-0123456789abcdef\nn5 zf-tools\n", "x");
  EXPECT_EQ(feature_lines(survey, present),
            "scontrol update NodeName=n4 AvailableFeatures=\n"
            "scontrol update NodeName=n[1-2] AvailableFeatures=ib,zf-0123456789abcdef\n"
            "# Add to the nodes' own lines in slurm.conf, so that a restart of slurmctld keeps them:\n"
            "# NodeName=n[1-2] Feature=ib,zf-0123456789abcdef\n"
            "# NodeName=n3 Feature=zf-0123456789abcdef\n"
            "# NodeName=n5 Feature=zf-tools\n");
}

}  // namespace
}  // namespace zf
