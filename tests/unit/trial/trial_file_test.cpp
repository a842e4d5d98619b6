#include "trial/trial_file.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "children/temporary_folder.hpp"
#include "os/file.hpp"

namespace zf {
namespace {

TEST(TrialFile, ATrialOfTheSameIdentityGoesOn) {
  const TemporaryFolder folder("zf-trial-file");
  const std::string path = folder / "trial.json";
  {
    TrialFile file(path, "job A", false);
    file.add("pool 4", 0, {{1.5, 2.25}, false});
    file.add("pool 8", 0, {{9}, true});
    file.add("pool 4", 1, {{1.75}, false});
  }
  const TrialFile again(path, "job A", false);
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
  TrialFile(path, "job A", false).add("pool 4", 0, {{1}, false});
  EXPECT_EQ(TrialFile(path, "job B", false).run_count(), 0U);
  EXPECT_EQ(TrialFile(path, "job A", true).run_count(), 0U);
  EXPECT_EQ(TrialFile(path, "job A", false).run_count(), 1U) << "nothing was written meanwhile";
  const std::string text = read_text_file(path);
  std::ofstream(path) << text.substr(0, text.size() / 2);
  EXPECT_EQ(TrialFile(path, "job A", false).run_count(), 0U);
}

TEST(TrialFile, WithoutAPathNothingIsWritten) {
  TrialFile file("", "job A", false);
  file.add("pool 4", 0, {{1}, false});
  EXPECT_EQ(file.run_count(), 1U);
}

}  // namespace
}  // namespace zf
