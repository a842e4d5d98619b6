#include "os/shared_cpus.hpp"

#include <gtest/gtest.h>

#include "base/cpu_list.hpp"
#include "cpus.hpp"

namespace zf {
namespace {

/// Returns what a job may use of a node with 16 CPUs.
AllowedInputs job(std::optional<double> quota) {
  AllowedInputs inputs;
  inputs.present = inputs.online = cpus("0-15");
  inputs.affinity = cpus("0-15");
  if (quota) inputs.cgroup.cpu_quota = {*quota, "/sys/fs/cgroup/cpu.max"};
  return inputs;
}

bool is_shared(const AllowedInputs& inputs, const char* isolated = "") {
  return neighbours_share(allowed_from(inputs), cpus(isolated));
}

TEST(SharedCpus, AQuotaWithoutACpusetMeansNeighbours) {
  EXPECT_TRUE(is_shared(job(8)));
  EXPECT_TRUE(is_shared(job(0.5)));
  EXPECT_FALSE(is_shared(job({}))) << "the whole node";
  EXPECT_FALSE(is_shared(job(16))) << "this quota takes nothing away";
}

TEST(SharedCpus, WhoeverNamesCpusHasThemForTheJob) {
  AllowedInputs by_cpuset = job(4);
  by_cpuset.cgroup.cpus = {cpus("0-15"), "cpuset.cpus.effective"};
  EXPECT_TRUE(is_shared(by_cpuset)) << "the root's cpuset";
  by_cpuset.cgroup.cpus = {cpus("8-15"), "cpuset.cpus.effective"};
  EXPECT_FALSE(is_shared(by_cpuset)) << "Kubernetes' static policy";
  AllowedInputs by_mask = job(4);
  by_mask.affinity = cpus("0-7");
  EXPECT_FALSE(is_shared(by_mask)) << "a cpuset that is not seen from here";
  AllowedInputs by_hand = job(4);
  by_hand.list = cpus("0-7");
  EXPECT_FALSE(is_shared(by_hand)) << "--allowed";
}

TEST(SharedCpus, IsolatedAndOfflineCpusAreNobodysCpuset) {
  AllowedInputs inputs = job(4);
  inputs.affinity = cpus("0-11");
  EXPECT_TRUE(is_shared(inputs, "12-15")) << "init's mask lacks them";
  EXPECT_FALSE(is_shared(inputs, "13-15"));
  inputs.online = cpus("0-11");
  EXPECT_TRUE(is_shared(inputs)) << "12-15 are offline";
}

}  // namespace
}  // namespace zf
