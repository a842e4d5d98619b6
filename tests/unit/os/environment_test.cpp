#include "os/environment.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include "base/error.hpp"

namespace zf {
namespace {

using testing::ElementsAre;

Environment with(std::map<std::string, std::string> variables) { return Environment(std::move(variables)); }

TEST(Environment, SwitchesOff) {
  EXPECT_TRUE(switched_off(with({{"ZF_TUNE", "off"}})));
  EXPECT_FALSE(switched_off(with({{"ZF_TUNE", "on"}})));
  EXPECT_FALSE(switched_off(with({})));
}

TEST(Environment, NumberIn) {
  EXPECT_EQ(number_in(with({{"A", " 3\t"}}), "A", 3)->value, 3);
  for (const char* unset : {"", " "}) EXPECT_FALSE(number_in(with({{"A", unset}}), "A", 0));
  for (const char* value : {"2", "-1", "a", "4x", "0x4", "+4", "99999999999"})
    EXPECT_THROW(number_in(with({{"A", value}}), "A", 3), Error) << value;
}

TEST(Environment, VisibleDevicesAreCounted) {
  const auto ids = [](const char* text) {
    const auto devices = visible_devices(with({{"CUDA_VISIBLE_DEVICES", text}}));
    return devices ? devices->ids : std::vector<std::string>{"absent"};
  };
  EXPECT_THAT(ids("0,1"), ElementsAre("0", "1"));
  EXPECT_THAT(ids("GPU-8932f937, GPU-5"), ElementsAre("GPU-8932f937", "GPU-5"));
  EXPECT_THAT(ids("3,-1,2"), ElementsAre("3")) << "the driver stops at the first invalid entry";
  for (const char* none : {"", "-1", "NoDevFiles"}) EXPECT_THAT(ids(none), ElementsAre()) << none;
  EXPECT_FALSE(visible_devices(Environment()));
}

TEST(Environment, HipCountsWithinWhatRocrLeaves) {
  const auto ids = [](const char* rocr, const char* hip) {
    return visible_devices(with({{"ROCR_VISIBLE_DEVICES", rocr}, {"HIP_VISIBLE_DEVICES", hip}}))->ids;
  };
  EXPECT_THAT(ids("4,6,7", "2,0"), ElementsAre("7", "4"));
  EXPECT_THAT(ids("4,6", "1,2,0"), ElementsAre("6")) << "the list ends at what is not there";
  EXPECT_THAT(ids("", "0"), ElementsAre());
  EXPECT_THAT(ids("4,6,7", "GPU-7,0"), ElementsAre("GPU-7", "4"));
}

TEST(Environment, OnGpusOfAmdCudasListCountsWithinThatOfRocr) {
  const auto seen = [](std::map<std::string, std::string> variables) {
    const auto devices = visible_devices(with(std::move(variables)), GpuRuntime::hip);
    return devices ? devices->ids : std::vector<std::string>{"all"};
  };
  EXPECT_THAT(seen({{"ROCR_VISIBLE_DEVICES", "4,6,7"}, {"CUDA_VISIBLE_DEVICES", "2,0"}}),
              ElementsAre("7", "4"));
  EXPECT_THAT(
      seen(
          {{"ROCR_VISIBLE_DEVICES", "4,6,7"}, {"CUDA_VISIBLE_DEVICES", "2,0"}, {"HIP_VISIBLE_DEVICES", "1"}}),
      ElementsAre("6"))
      << "HIP's own name comes first";
  EXPECT_THAT(seen({{"CUDA_VISIBLE_DEVICES", "2,0"}, {"HIP_VISIBLE_DEVICES", ""}}), ElementsAre("2", "0"));
  EXPECT_THAT(seen({{"ROCR_VISIBLE_DEVICES", "4,6"}, {"CUDA_VISIBLE_DEVICES", ""}}), ElementsAre("4", "6"))
      << "an empty list of HIP hides nothing";
  EXPECT_THAT(seen({{"CUDA_VISIBLE_DEVICES", "-1"}}), ElementsAre());
  EXPECT_THAT(seen({{"CUDA_VISIBLE_DEVICES", ""}}), ElementsAre("all"));
  const auto of_nvidia =
      visible_devices(with({{"ROCR_VISIBLE_DEVICES", "2,3"}, {"CUDA_VISIBLE_DEVICES", "2,3"}}));
  EXPECT_THAT(of_nvidia->ids, ElementsAre("2", "3")) << "Slurm may set both; CUDA knows only its own";
}

TEST(Environment, OfThisProcess) {
  ::setenv("ZF_TEST_VARIABLE", "a=b", 1);
  EXPECT_EQ(Environment::of_this_process().get("ZF_TEST_VARIABLE"), "a=b");
  ::unsetenv("ZF_TEST_VARIABLE");
  EXPECT_FALSE(Environment::of_this_process().get("ZF_TEST_VARIABLE"));
}

}  // namespace
}  // namespace zf
