#include "local/own_team.hpp"

#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <set>
#include <thread>
#include <vector>

#include "base/cpu_list.hpp"
#include "os/affinity.hpp"
#include "tensors.hpp"

namespace zf {
namespace {

std::vector<Pu> moved(const CpuSet& mask, int caller, std::vector<Pu> helpers) {
  move_helpers(mask, Pu{caller}, helpers);
  return helpers;
}

TEST(OwnTeam, HelpersGetTheOtherCpusOfTheCaller) {
  const CpuSet mask = {Pu{2}, Pu{3}, Pu{7}};
  EXPECT_EQ(moved(mask, 3, {kUnbound, kUnbound}), (std::vector{Pu{2}, Pu{7}}));
  EXPECT_EQ(moved(mask, 3, {Pu{7}, Pu{2}}), (std::vector{Pu{7}, Pu{2}})) << "they stay if they can";
  EXPECT_EQ(moved(mask, 7, {Pu{7}, Pu{2}}), (std::vector{Pu{3}, Pu{2}})) << "only one is in the way";
  EXPECT_EQ(moved(mask, 3, {Pu{0}, Pu{1}}), (std::vector{Pu{2}, Pu{7}})) << "others are not allowed";
  EXPECT_EQ(moved(mask, 3, {Pu{2}, Pu{2}}), (std::vector{Pu{2}, Pu{7}})) << "one for each";
}

TEST(OwnTeam, MoreHelpersThanCpusShareThemWithoutTheCallers) {
  const std::vector<Pu> five = moved({Pu{0}, Pu{1}, Pu{2}}, 1, std::vector<Pu>(5, kUnbound));
  EXPECT_EQ(std::count(five.begin(), five.end(), Pu{1}), 0);
  EXPECT_GE(std::count(five.begin(), five.end(), Pu{0}), 2);
  EXPECT_GE(std::count(five.begin(), five.end(), Pu{2}), 2);
  EXPECT_EQ(moved({Pu{4}}, 4, {kUnbound}), std::vector{Pu{4}});
}

TEST(OwnTeam, RunsEachMemberOnceAtEverySize) {
  OwnTeam team;
  for (const std::size_t size : {1U, 4U, 2U, 3U, 1U, 4U}) {
    team.resize(size);
    ASSERT_EQ(team.size(), size);
    for (int round = 0; round < 50; ++round) {
      std::vector<int> calls(size, 0);  // plain: run() orders the writes of the members before its return
      std::vector<std::thread::id> threads(size);
      team.run([&](std::size_t member, std::size_t members) {
        EXPECT_EQ(members, size);
        ++calls[member];
        threads[member] = std::this_thread::get_id();
      });
      ASSERT_EQ(calls, std::vector<int>(size, 1));
      EXPECT_EQ(threads[0], std::this_thread::get_id());
      EXPECT_EQ(std::set(threads.begin(), threads.end()).size(), size) << "one thread each";
    }
  }
}

TEST(OwnTeam, HelpersHaveAllCpusOfTheCallerWhereNeighboursShareThem) {
  OwnTeam team;
  team.resize(3);
  const auto masks = [&] {
    std::vector<CpuSet> seen(3);
    team.run([&](std::size_t member, std::size_t) { seen[member] = thread_affinity(); });
    return seen;
  };
  masks();  // pinned
  team.share_cpus(true);
  EXPECT_EQ(masks(), std::vector<CpuSet>(3, thread_affinity()));
  team.share_cpus(false);
  EXPECT_EQ(masks()[1].size(), 1U);
}

TEST(OwnTeam, HelpersFollowTheCallerWhoseMaskStays) {
  const CpuSet allowed = thread_affinity();
  if (allowed.size() < 2) GTEST_SKIP() << "needs 2 CPUs, " << print(allowed) << " is allowed";
  OwnTeam team;
  team.resize(2);
  const auto helper_mask = [&] {
    CpuSet seen;
    team.run([&](std::size_t member, std::size_t) {
      if (member == 1) seen = thread_affinity();
    });
    return seen;
  };
  EXPECT_EQ(helper_mask().size(), 1U);
  EXPECT_EQ(thread_affinity(), allowed);
  // A caller that may use one CPU keeps its helper there; then it may use all again.
  bind_this_thread({allowed.first()});
  EXPECT_EQ(helper_mask(), CpuSet{allowed.first()});
  bind_this_thread(allowed);
  for (int round = 0; round < 20; ++round) {
    const int before = sched_getcpu();
    const CpuSet helper = helper_mask();
    EXPECT_TRUE(allowed.contains(helper));
    if (sched_getcpu() == before) {
      EXPECT_NE(helper, CpuSet{Pu{before}});
    }
  }
  EXPECT_EQ(thread_affinity(), allowed);
}

TEST(OwnTeam, EndsItsHelpers) {
  const std::size_t before = count_helpers();
  {
    OwnTeam team;
    team.resize(4);
    team.run([](std::size_t, std::size_t) {});
    EXPECT_EQ(count_helpers(), before + 3);
  }
  EXPECT_TRUE(helpers_become(before));
}

}  // namespace
}  // namespace zf
