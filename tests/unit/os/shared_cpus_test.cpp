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

bool is_shared(const AllowedInputs& inputs, const char* isolated = "", const char* nohz_full = "") {
  return neighbours_share(allowed_from(inputs), {cpus(isolated), cpus(nohz_full), {}});
}

/// Returns the same in a cpuset of CPUs 4-15.
AllowedInputs job_in_cpuset(std::optional<double> quota) {
  AllowedInputs inputs = job(quota);
  inputs.cgroup.cpus = {cpus("4-15"), "cpuset.cpus.effective"};
  inputs.affinity = cpus("4-15");
  return inputs;
}

TEST(SharedCpus, AQuotaForFewerCpusThanAreAllowedMeansNeighbours) {
  EXPECT_TRUE(is_shared(job(8)));
  EXPECT_TRUE(is_shared(job(0.5)));
  EXPECT_FALSE(is_shared(job({}))) << "the whole node";
  EXPECT_FALSE(is_shared(job(16))) << "this quota takes nothing away";
  EXPECT_TRUE(is_shared(job_in_cpuset(4))) << "Kubernetes' shared pool, docker --cpus with --cpuset-cpus";
  EXPECT_FALSE(is_shared(job_in_cpuset({}))) << "Kubernetes' static policy sets no quota";
  EXPECT_FALSE(is_shared(job_in_cpuset(12))) << "or one for all of its CPUs";
  EXPECT_FALSE(is_shared(job_in_cpuset(13)));
}

TEST(SharedCpus, NineTenthsOfTheCpusCountAsAll) {
  EXPECT_FALSE(is_shared(job(15)));
  EXPECT_FALSE(is_shared(job(14.4)));
  EXPECT_TRUE(is_shared(job(14.3)));
  EXPECT_FALSE(is_shared(job_in_cpuset(10.8)));
  EXPECT_TRUE(is_shared(job_in_cpuset(10.7)));
  EXPECT_TRUE(nearly_whole_quota_note(allowed_from(job(15))));
  EXPECT_FALSE(nearly_whole_quota_note(allowed_from(job(16))));
  EXPECT_FALSE(nearly_whole_quota_note(allowed_from(job({}))));
  EXPECT_FALSE(nearly_whole_quota_note(allowed_from(job(14))));
}

TEST(SharedCpus, AMaskSaysWhichCpusAreTheJobs) {
  AllowedInputs by_mask = job(4);
  by_mask.affinity = cpus("0-7");
  EXPECT_FALSE(is_shared(by_mask)) << "a cpuset that is not seen from here";
  AllowedInputs in_cpuset = job_in_cpuset(2);
  in_cpuset.affinity = cpus("4-7");
  EXPECT_FALSE(is_shared(in_cpuset)) << "taskset";
}

TEST(SharedCpus, WhatAllowedLeavesOutIsComparedWithTheQuotaToo) {
  AllowedInputs by_hand = job(8);
  by_hand.list = cpus("0-7");
  EXPECT_TRUE(is_shared(by_hand)) << "read_machine() takes CPUs that are named as the job's own";
}

TEST(SharedCpus, IsolatedAndOfflineCpusDecideNothing) {
  AllowedInputs inputs = job(4);
  inputs.affinity = cpus("0-11");
  EXPECT_TRUE(is_shared(inputs, "12-15")) << "init's mask lacks them";
  EXPECT_FALSE(is_shared(inputs, "13-15"));
  EXPECT_TRUE(is_shared(inputs, "", "12-15"));
  inputs.online = cpus("0-11");
  EXPECT_TRUE(is_shared(inputs)) << "12-15 are offline";
}

TEST(SharedCpus, AJobOnIsolatedCpusAloneHasItsThreadsPinned) {
  EXPECT_FALSE(is_shared(job_in_cpuset(4), "4-15")) << "the scheduler moves no thread there";
  EXPECT_TRUE(is_shared(job_in_cpuset(4), "5-15"));
  EXPECT_TRUE(is_shared(job_in_cpuset(4), "", "4-15"));
}

}  // namespace
}  // namespace zf
