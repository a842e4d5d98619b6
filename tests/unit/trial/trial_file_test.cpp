#include "trial/trial_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "children/temporary_folder.hpp"
#include "os/file.hpp"

namespace zf {
namespace {

using testing::HasSubstr;

const TrialIdentity kJobA{{"command", "job A"}, {"--metric", "t"}};
const TrialIdentity kJobB{{"command", "job B"}, {"--metric", "t"}};

TEST(TrialFile, ATrialOfTheSameIdentityGoesOn) {
  const TemporaryFolder folder("zf-trial-file");
  const std::string path = folder / "trial.json";
  {
    TrialFile file(path, kJobA, false);
    file.add("pool 4", 0, {{1.5, 2.25}, false});
    file.add("pool 8", 0, {{9}, true});
    file.add("pool 4", 1, {{1.75}, false});
  }
  const TrialFile again(path, kJobA, false);
  ASSERT_EQ(again.run_count(), 3U);
  ASSERT_NE(again.find("pool 4", 1), nullptr);
  EXPECT_EQ(again.find("pool 4", 1)->values, std::vector<double>{1.75});
  EXPECT_EQ(again.find("pool 4", 0)->values, (std::vector<double>{1.5, 2.25}));
  EXPECT_TRUE(again.find("pool 8", 0)->was_stopped_early);
  EXPECT_EQ(again.find("pool 8", 1), nullptr);
}

TEST(TrialFile, AnotherTrialADamagedFileAndFreshBeginAnew) {
  const TemporaryFolder folder("zf-trial-file");
  const std::string path = folder / "trial.json";
  TrialFile(path, kJobA, false).add("pool 4", 0, {{1}, false});
  const TrialFile other(path, kJobB, false);
  EXPECT_EQ(other.run_count(), 0U);
  EXPECT_THAT(other.dropped(),
              HasSubstr("the 1 run in " + path + " cannot be used: made with another command."));
  EXPECT_EQ(TrialFile(path, kJobA, true).run_count(), 0U);
  EXPECT_EQ(TrialFile(path, kJobA, true).dropped(), "") << "that was asked for";
  EXPECT_EQ(TrialFile(path, kJobA, false).run_count(), 1U) << "nothing was written meanwhile";
  const std::string text = read_text_file(path);
  std::ofstream(path) << text.substr(0, text.size() / 2);
  const TrialFile damaged(path, kJobA, false);
  EXPECT_EQ(damaged.run_count(), 0U);
  EXPECT_THAT(damaged.dropped(), HasSubstr("cannot be used: " + path));
}

TEST(TrialFile, ARunWithoutValuesWouldSpoilTheFile) {
  const TemporaryFolder folder("zf-trial-file");
  TrialFile file(folder / "trial.json", kJobA, false);
  EXPECT_DEATH(file.add("pool 4", 0, {{}, false}), "empty");
}

TEST(TrialFile, WithoutAPathNothingIsWritten) {
  TrialFile file("", kJobA, false);
  file.add("pool 4", 0, {{1}, false});
  EXPECT_EQ(file.run_count(), 1U);
}

}  // namespace
}  // namespace zf
