#include "gpus/live_gpus.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/clock.hpp"
#include "gpus/rank_gpus.hpp"
#include "paths.hpp"

namespace zf {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr const char* kWhole = "GPU-8932f937-d72c";
constexpr const char* kInstance = "MIG-5c89852c-d268";
constexpr milliseconds kPatience{30'000};
const std::string kImitatedNvml = std::string(kLibDir) + "/libimitated_nvml.so";

std::vector<Gpu> two_gpus() {
  return {{"0000:3b:00.0", "NVIDIA A100", CpuSet(), {}}, {"0001:c1:00.0", "NVIDIA A100", CpuSet(), {}}};
}

Environment seeing(const std::string& devices) { return Environment({{"CUDA_VISIBLE_DEVICES", devices}}); }

/// Returns the aliases of both GPUs, as the imitated NVML reports them.
std::vector<std::vector<std::string>> told(const std::vector<std::string>& uuids,
                                           const std::string& library = kImitatedNvml,
                                           milliseconds deadline = kPatience) {
  std::vector<Gpu> gpus = two_gpus();
  add_nvml_aliases(uuids, gpus, deadline, library);
  return {gpus[0].aliases, gpus[1].aliases};
}

std::vector<std::vector<std::string>> told_with(const char* fault, milliseconds deadline = kPatience) {
  ::setenv("ZF_NVML_FAULT", fault, 1);
  const auto aliases = told({kWhole, kInstance}, kImitatedNvml, deadline);
  ::unsetenv("ZF_NVML_FAULT");
  return aliases;
}

TEST(Nvml, AMigInstanceIsOfItsGpu) {
  EXPECT_THAT(told({kInstance}), ElementsAre(IsEmpty(), ElementsAre(kInstance)));
}

TEST(Nvml, OneThatIsUnknownKeepsNoOtherFromItsName) {
  EXPECT_THAT(told({"MIG-00000000-0000", kWhole, kInstance}),
              ElementsAre(ElementsAre(kWhole), ElementsAre(kInstance)));
}

TEST(Nvml, TheRankOfAnInstanceGetsItsGpu) {
  Topology topology;
  topology.is_this_machine = true;
  topology.gpus = two_gpus();
  const Environment environment = seeing(std::string(kInstance) + "," + kWhole);
  add_nvml_aliases(unresolved_uuids(environment, topology.gpus), topology.gpus, kPatience, kImitatedNvml);
  const RankGpus ranks = rank_gpus(environment, topology, 2);
  EXPECT_THAT(ranks.notes, IsEmpty());
  ASSERT_TRUE(ranks.gpus[0] && ranks.gpus[1]);
  EXPECT_EQ(ranks.gpus[0]->pci_address, "0001:c1:00.0");
  EXPECT_EQ(ranks.gpus[1]->pci_address, "0000:3b:00.0");
}

TEST(Nvml, WithoutItNothingIsKnown) {
  const auto nothing = ElementsAre(IsEmpty(), IsEmpty());
  EXPECT_THAT(told({kWhole}, "libzf-no-such-library.so.1"), nothing);
  EXPECT_THAT(told_with("no_driver"), nothing);
  EXPECT_THAT(told_with("crash"), nothing);
  const Nanoseconds start = now_ns();
  EXPECT_THAT(told_with("hang", milliseconds(100)), nothing);
  EXPECT_LT(now_ns() - start, 20 * kSecondNs) << "it hangs for a minute";
}

TEST(Nvml, IsAskedOnlyWhatNothingElseTells) {
  std::vector<Gpu> gpus = two_gpus();
  gpus[0].uuid = kWhole;
  EXPECT_THAT(unresolved_uuids(seeing("0,1"), gpus), IsEmpty());
  EXPECT_THAT(unresolved_uuids(seeing(kWhole), gpus), IsEmpty());
  EXPECT_THAT(unresolved_uuids(seeing("GPU-8932"), gpus), IsEmpty()) << "a beginning will do";
  EXPECT_THAT(unresolved_uuids(seeing("MIG-GPU-8932f937-d72c/1/0"), gpus), IsEmpty()) << "names its GPU";
  EXPECT_THAT(unresolved_uuids(seeing(std::string(kInstance) + ",GPU-7"), gpus),
              ElementsAre(kInstance, "GPU-7"));
  EXPECT_THAT(unresolved_uuids(Environment(), gpus), IsEmpty());
}

}  // namespace
}  // namespace zf
