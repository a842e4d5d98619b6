#include "measure/compute_team.hpp"

#include <gtest/gtest.h>

#include <ctime>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "base/error.hpp"
#include "os/affinity.hpp"

namespace zf {
namespace {

Nanoseconds cpu_time_ns() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return time.tv_sec * kSecondNs + time.tv_nsec;
}

/// Returns the CPU time of each thread of this process.
std::vector<Nanoseconds> thread_cpu_times_ns() {
  std::vector<Nanoseconds> times;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream file(entry.path() / "schedstat");
    Nanoseconds ran_ns = 0;
    file >> ran_ns;
    times.push_back(ran_ns);
  }
  return times;
}

/// Returns the CPU time that the team uses within 100 ms after a region.
Nanoseconds cpu_time_after_a_region(ComputeTeam& team, ComputeTeam::Afterwards afterwards) {
  team.compute(kMillisecondNs, afterwards);
  const Nanoseconds before = cpu_time_ns();
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  return cpu_time_ns() - before;
}

TEST(ComputeTeam, EveryMemberUsesItsOwnShare) {
  ComputeTeam team(thread_affinity(), 3);
  team.compute(20 * kMillisecondNs, ComputeTeam::Afterwards::sleep);
  int members = 0;
  for (const Nanoseconds ran_ns : thread_cpu_times_ns()) members += ran_ns >= 20 * kMillisecondNs ? 1 : 0;
  EXPECT_EQ(members, 3);
}

TEST(ComputeTeam, EveryThreadIsBound) {
  const CpuSet one{thread_affinity().last()};
  const ComputeTeam team(one, 3);
  int bound = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task"))
    bound += thread_affinity(std::stoi(entry.path().filename())) == one ? 1 : 0;
  EXPECT_GE(bound, 2) << "the calling thread keeps its own mask";
}

TEST(ComputeTeam, SpinsAfterARegionUnlessToldToSleep) {
  if (thread_affinity().size() < 2) GTEST_SKIP() << "threads without a CPU of their own hardly spin";
  ComputeTeam team(thread_affinity(), 2);
  const Nanoseconds asleep = cpu_time_after_a_region(team, ComputeTeam::Afterwards::sleep);
  const Nanoseconds spinning = cpu_time_after_a_region(team, ComputeTeam::Afterwards::spin);
  EXPECT_GT(spinning, 2 * asleep) << spinning << " and " << asleep << " ns";
  EXPECT_LT(spinning, 90 * kMillisecondNs) << "it must end";
}

TEST(ComputeTeam, OneMemberNeedsNoThread) {
  ComputeTeam team(thread_affinity(), 1);
  EXPECT_EQ(thread_cpu_times_ns().size(), 1U);
  team.compute(kMillisecondNs, ComputeTeam::Afterwards::spin);
}

TEST(ComputeTeam, CpusThatAreNotThereAreAnError) { EXPECT_THROW(ComputeTeam(CpuSet{Pu{60000}}, 2), Error); }

}  // namespace
}  // namespace zf
