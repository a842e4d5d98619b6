#include "measure/compute_team.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <ctime>
#include <filesystem>
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
    const int tid = std::stoi(entry.path().filename());
    constexpr unsigned kCpuTimeOfAThread = 6;  // CPUCLOCK_SCHED and CPUCLOCK_PERTHREAD_MASK of the kernel
    timespec time{};
    if (::clock_gettime(static_cast<clockid_t>((~static_cast<unsigned>(tid) << 3) | kCpuTimeOfAThread),
                        &time) == 0)
      times[tid] = time.tv_sec * kSecondNs + time.tv_nsec;
  }
  return times;
}

/// Returns the CPU time that the other threads use from the beginning of a region of 1 ms until 200 ms later.
Nanoseconds others_cpu_time(ComputeTeam& team, Afterwards afterwards) {
  const auto others_ns = [] {
    Nanoseconds sum = 0;
    for (const auto& [tid, ns] : thread_cpu_times_ns()) sum += tid == ::gettid() ? 0 : ns;
    return sum;
  };
  const Nanoseconds before = others_ns();
  team.compute(kMillisecondNs, afterwards);
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  return others_ns() - before;
}

TEST(ComputeTeam, EveryMemberUsesItsOwnShare) {
  ComputeTeam team(thread_affinity(), 3);
  std::map<int, Nanoseconds> before = thread_cpu_times_ns();
  team.compute(20 * kMillisecondNs, Afterwards::sleep);
  int members = 0;
  for (const auto& [tid, ns] : thread_cpu_times_ns())
    members += ns - before[tid] >= 20 * kMillisecondNs ? 1 : 0;
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
  const Nanoseconds asleep = others_cpu_time(team, Afterwards::sleep);
  const Nanoseconds spinning = others_cpu_time(team, Afterwards::spin);
  EXPECT_GT(spinning, asleep + kMillisecondNs / 5) << "300,000 looks take longer than that on any CPU";
  EXPECT_LT(spinning, 150 * kMillisecondNs) << "it must end";
}

TEST(ComputeTeam, RunsManyRegions) {
  for (const int threads : {1, 2}) {
    ComputeTeam team(thread_affinity(), threads);
    std::map<int, Nanoseconds> before = thread_cpu_times_ns();
    for (int region = 0; region < 300; ++region)
      team.compute(100'000, region % 3 == 0 ? Afterwards::sleep : Afterwards::spin);
    int members = 0;
    for (const auto& [tid, ns] : thread_cpu_times_ns())
      members += ns - before[tid] >= 30 * kMillisecondNs ? 1 : 0;
    EXPECT_EQ(members, threads);
  }
}

TEST(ComputeTeam, CpusThatAreNotThereAreAnError) { EXPECT_THROW(ComputeTeam(CpuSet{Pu{60000}}, 2), Error); }

}  // namespace
}  // namespace zf
