#include "survey/tune_classes.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.hpp"

namespace zf {
namespace {

using testing::ElementsAre;

TEST(TuneClasses, CommandIsOneWordAndNoShellReadsTheRest) {
  EXPECT_THAT(words_of("ssh {node} {command}", "gpu001", {"zf-tune", "tune", "-w", "a b.json"}),
              ElementsAre("ssh", "gpu001", "zf-tune tune -w 'a b.json'"));
  EXPECT_THAT(words_of("sbatch --wait -w{node} --wrap={command} $(x);", "n1", {"tune"}),
              ElementsAre("sbatch", "--wait", "-wn1", "--wrap=tune", "$(x);"));
  EXPECT_THROW(words_of("ssh {node}", "n1", {}), Error);
  EXPECT_THROW(words_of("ssh {command}", "n1", {}), Error);
}

TEST(TuneClasses, ClassWithGpusInSeveralPlacesHasAPlanForEach) {
  std::vector<NodeClass> classes(3);
  classes[0].machine.fingerprint = classes[1].machine.fingerprint = "aaaaaaaaaaaaaaaa";
  classes[0].gpus = GpuPlaces{"1111111111111111", {}};
  classes[1].gpus = GpuPlaces{"2222222222222222", {}};
  classes[2].machine.fingerprint = "bbbbbbbbbbbbbbbb";
  classes[0].typical = "n1";
  classes[1].typical = "n2";
  classes[2].typical = "n3";
  const auto tunings = tunings_of(classes, "/nowhere/plans", "run {node} {command}", {"--ranks", "8"});
  ASSERT_EQ(tunings.size(), 3U);
  EXPECT_EQ(tunings[0].plan, "/nowhere/plans/aaaaaaaaaaaaaaaa+1111111111111111.json");
  EXPECT_EQ(tunings[2].plan, "/nowhere/plans/bbbbbbbbbbbbbbbb.json");
  EXPECT_THAT(
      tunings[2].command,
      ElementsAre("run", "n3", "zf-tune tune -q -o /nowhere/plans/.bbbbbbbbbbbbbbbb.json.new --ranks 8"));
}

TEST(TuneClasses, ClassInWhichEveryNodeIsOddIsLeftOut) {
  EXPECT_TRUE(tunings_of(std::vector<NodeClass>(1), "/nowhere", "{node} {command}", {}).empty());
}

}  // namespace
}  // namespace zf
