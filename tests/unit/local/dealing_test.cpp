#include "local/dealing.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "local/own_team.hpp"

namespace zf {
namespace {

/// Cuts one tensor into small parts for so many members.
Parts parts_for(std::size_t members, std::size_t elements = 100 * kSliceGrain) {
  std::vector<TensorStep> tensors(1);
  tensors[0].elements = elements;
  Parts parts;
  cut(tensors, members, parts, kSliceGrain);
  return parts;
}

/// Counts how often each element is done.
struct Counts {
  std::vector<std::atomic<int>> of_grain = std::vector<std::atomic<int>>(100);
  void operator()(const Part& part) {
    for (std::size_t at = part.slice.begin; at < part.slice.end; at += kSliceGrain) {
      of_grain[at / kSliceGrain].fetch_add(1, std::memory_order_relaxed);
    }
  }
  bool all_are(int wanted) const {
    return std::all_of(of_grain.begin(), of_grain.end(), [&](const auto& count) { return count == wanted; });
  }
};

TEST(Dealing, ATeamOfAnySizeDoesEachPartOnce) {
  Dealing dealing;
  for (std::size_t dealt = 1; dealt <= 5; ++dealt) {
    for (std::size_t members = 1; members <= 7; ++members) {
      const Parts parts = parts_for(dealt);
      Counts counts;
      dealing.deal(parts);
      std::vector<std::thread> team;
      for (std::size_t member = 0; member < members; ++member) {
        team.emplace_back(
            [&, member] { dealing.work(member, members, [&](const Part& part) { counts(part); }); });
      }
      for (std::thread& thread : team) thread.join();
      EXPECT_TRUE(counts.all_are(1)) << members << " members, dealt to " << dealt;
    }
  }
}

TEST(Dealing, MembersWhoTakeTheSamePartsAtTheSameTimeDoEachOnce) {
  const Parts parts = parts_for(2);
  Dealing dealing;
  Counts counts;
  OwnTeam team;
  team.resize(4);
  constexpr int rounds = 2000;
  for (int round = 0; round < rounds; ++round) {
    dealing.deal(parts);
    team.run([&](std::size_t member, std::size_t members) {
      dealing.work(member, members, [&](const Part& part) { counts(part); });
    });
  }
  EXPECT_TRUE(counts.all_are(rounds));
}

TEST(Dealing, AMemberTakesWhatOthersHaveNotBegun) {
  const Parts parts = parts_for(4);
  Dealing dealing;
  Counts counts;
  dealing.deal(parts);
  dealing.work(1, 4, [&](const Part& part) { counts(part); });  // the others have not come yet
  EXPECT_TRUE(counts.all_are(1));
  EXPECT_EQ(dealing.stolen(), parts.parts.size() - parts.of_member(1).size());
  dealing.work(0, 4, [&](const Part& part) { counts(part); });
  EXPECT_TRUE(counts.all_are(1)) << "nothing is left for the next";
}

TEST(Dealing, ASmallerTeamDoesTheSharesOfThoseWhoAreMissingAsItsOwn) {
  const Parts parts = parts_for(4);
  Dealing dealing;
  Counts counts;
  dealing.deal(parts);
  dealing.work(0, 1, [&](const Part& part) { counts(part); });
  EXPECT_TRUE(counts.all_are(1));
  EXPECT_EQ(dealing.stolen(), 0U);
}

TEST(Dealing, OwnPartsComeFirstAndInOrder) {
  const Parts parts = parts_for(4);
  Dealing dealing;
  dealing.deal(parts);
  std::vector<Part> done;
  dealing.work(2, 4, [&](const Part& part) { done.push_back(part); });
  const auto own = parts.of_member(2);
  ASSERT_GE(done.size(), own.size());
  EXPECT_TRUE(std::equal(own.begin(), own.end(), done.begin()));
}

TEST(Dealing, PartsStayOnTheirNumaNodeIfItIsKnown) {
  EXPECT_TRUE(may_steal(1, 1));
  EXPECT_FALSE(may_steal(0, 1));
  EXPECT_TRUE(may_steal(kUnknownNode, 1));
  EXPECT_TRUE(may_steal(0, kUnknownNode));
  EXPECT_GE(node_of_this_thread(), 0);
}

}  // namespace
}  // namespace zf
