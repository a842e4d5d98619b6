#include "measure/compute_team.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <thread>

#include "base/error.hpp"
#include "os/affinity.hpp"

namespace zf {
namespace {

using Afterwards = ComputeTeam::Afterwards;

/// Returns the CPU time of each thread of this process, by thread.
std::map<int, Nanoseconds> thread_cpu_times_ns() {
  std::map<int, Nanoseconds> times;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream file(entry.path() / "schedstat");
    Nanoseconds ran_ns = 0;
    if (file >> ran_ns) times[std::stoi(entry.path().filename())] = ran_ns;
  }
  return times;
}

/// Returns the CPU time that the team uses within 100 ms after a region.
Nanoseconds cpu_time_after_a_region(ComputeTeam& team, Afterwards afterwards) {
  const auto spent = [] {
    timespec time{};
    ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return time.tv_sec * kSecondNs + time.tv_nsec;
  };
  team.compute(kMillisecondNs, afterwards);
  const Nanoseconds before = spent();
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  return spent() - before;
}

TEST(ComputeTeam, EveryMemberUsesItsOwnShare) {
  ComputeTeam team(thread_affinity(), 3);
  std::map<int, Nanoseconds> before = thread_cpu_times_ns();
  if (before.empty()) GTEST_SKIP() << "this kernel does not say how long a thread ran (schedstat)";
  team.compute(20 * kMillisecondNs, Afterwards::sleep);
  int members = 0;
  for (const auto& [tid, ran_ns] : thread_cpu_times_ns())
    members += ran_ns - before[tid] >= 19 * kMillisecondNs ? 1 : 0;
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
  ComputeTeam team(thread_affinity(), 2);
  const Nanoseconds asleep = cpu_time_after_a_region(team, Afterwards::sleep);
  const Nanoseconds spinning = cpu_time_after_a_region(team, Afterwards::spin);
  EXPECT_GT(spinning, kMillisecondNs);
  EXPECT_LT(asleep, kMillisecondNs);
  EXPECT_LT(spinning, 90 * kMillisecondNs) << "it must end";
}

TEST(ComputeTeam, RunsManyRegions) {
  for (const int threads : {1, 2}) {
    ComputeTeam team(thread_affinity(), threads);
    for (int region = 0; region < 300; ++region)
      team.compute(1000, region % 3 == 0 ? Afterwards::sleep : Afterwards::spin);
  }
}

TEST(ComputeTeam, CpusThatAreNotThereAreAnError) { EXPECT_THROW(ComputeTeam(CpuSet{Pu{60000}}, 2), Error); }

}  // namespace
}  // namespace zf
