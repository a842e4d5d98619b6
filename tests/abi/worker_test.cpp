// Tests the parts of the worker: the shares of its threads, its command line, and a start by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <random>
#include <string>

#include "base/error.hpp"
#include "worker/arguments.hpp"
#include "worker/shares.hpp"

namespace zf {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

std::size_t grains_of(const Slice& slice) { return (slice.size() + kSliceGrain - 1) / kSliceGrain; }

TEST(Shares, CoverEveryChunkOnceAndAreEqualWithinAGrain) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 300; ++round) {
    const std::size_t members = 1 + random() % 70;
    std::vector<GroupCut> groups(1 + random() % 20);
    for (GroupCut& group : groups) {
      group.elements = random() % (random() % 2 == 0 ? 20 : 3'000'000);
      group.chunk_elements = (1 + random() % 1000) * kSliceGrain;
    }
    const auto shares = deal_shares(groups, members);
    ASSERT_EQ(shares.size(), groups.size());
    std::vector<std::size_t> total(members, 0);
    for (std::size_t group = 0; group < groups.size(); ++group) {
      std::size_t end = 0;
      for (std::size_t chunk = 0; chunk < shares[group].size(); ++chunk) {
        ASSERT_EQ(shares[group][chunk].size(), members);
        ASSERT_EQ(end, chunk * groups[group].chunk_elements);
        std::size_t least = ~std::size_t{0};
        std::size_t most = 0;
        for (std::size_t member = 0; member < members; ++member) {
          const Slice& slice = shares[group][chunk][member];
          ASSERT_EQ(slice.begin, end);
          ASSERT_TRUE(slice.begin % kSliceGrain == 0 || slice.size() == 0);
          end = slice.end;
          least = std::min(least, grains_of(slice));
          most = std::max(most, grains_of(slice));
          total[member] += grains_of(slice);
        }
        ASSERT_LE(most - least, 1U);
      }
      ASSERT_EQ(end, groups[group].elements);
    }
    const auto [least, most] = std::minmax_element(total.begin(), total.end());
    ASSERT_LE(*most - *least, 1U);
  }
}

TEST(Shares, SmallGroupsKeepAllMembersBusy) {
  const auto shares = deal_shares(std::vector<GroupCut>(16, {4 * kSliceGrain, 1024 * kSliceGrain}), 16);
  for (std::size_t member = 0; member < 16; ++member) {
    std::size_t grains = 0;
    for (const auto& group : shares) grains += grains_of(group.front()[member]);
    EXPECT_EQ(grains, 4U) << "member " << member;
  }
}

TEST(WorkerArguments, SayWhereToRun) {
  const WorkerArguments arguments =
      parse_worker_arguments({"--rank", "3", "--cpus", "7-9,11", "--mems", "1", "--memory-policy", "bind"});
  EXPECT_EQ(arguments.rank, 3);
  EXPECT_EQ(arguments.cpus, (CpuSet{Pu{7}, Pu{8}, Pu{9}, Pu{11}}));
  EXPECT_EQ(arguments.mems, NodeSet{Node{1}});
  EXPECT_EQ(arguments.memory_policy, MemoryPolicy::bind);
}

std::string refusal_of(const std::vector<std::string>& words) {
  try {
    parse_worker_arguments(words);
  } catch (const Error& error) {
    EXPECT_EQ(error.exit(), Exit::usage);
    return error.what();
  }
  return "none";
}

TEST(WorkerArguments, RefuseWhatIsWrong) {
  EXPECT_THAT(refusal_of({}), HasSubstr("--cpus is missing"));
  EXPECT_THAT(refusal_of({"--cpu", "0"}), HasSubstr("unknown argument \"--cpu\""));
  EXPECT_THAT(refusal_of({"--cpus"}), HasSubstr("--cpus has no value"));
  EXPECT_THAT(refusal_of({"--cpus", "4-2"}), HasSubstr("4-2"));
  EXPECT_THAT(refusal_of({"--cpus", "0", "--rank", "x"}), HasSubstr("\"x\" is not a rank"));
  EXPECT_THAT(refusal_of({"--cpus", "0", "--memory-policy", "strict"}),
              HasSubstr("\"strict\" is not a memory policy"));
}

struct Outcome {
  int status = -1;
  std::string output;  ///< stdout and stderr
};

Outcome run(const std::string& arguments) {
  Outcome outcome;
  FILE* const pipe = popen((std::string(ZF_BIN_DIR "/zf-optimizer ") + arguments + " 2>&1").c_str(), "re");
  std::array<char, 4096> buffer;
  while (fgets(buffer.data(), buffer.size(), pipe) != nullptr) outcome.output += buffer.data();
  const int status = pclose(pipe);
  outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return outcome;
}

TEST(WorkerByHand, SaysOneClearLineAndEnds) {
  for (const char* const arguments :
       {"", "--cpus 0 3</dev/null 4</dev/null", "--cpus 0 3<&- 4<&-", "--bogus"}) {
    const Outcome by_hand = run(arguments);
    EXPECT_EQ(by_hand.status, 2) << arguments;
    EXPECT_THAT(by_hand.output, StartsWith("zf-optimizer: "));
    EXPECT_THAT(by_hand.output, HasSubstr("libzf_runtime.so"));
    EXPECT_EQ(std::count(by_hand.output.begin(), by_hand.output.end(), '\n'), 1) << by_hand.output;
  }
}

TEST(WorkerByHand, HasHelpAndVersion) {
  const Outcome help = run("--help");
  EXPECT_EQ(help.status, 0);
  EXPECT_THAT(help.output, HasSubstr("--memory-policy"));
  const Outcome version = run("--version");
  EXPECT_EQ(version.status, 0);
  EXPECT_THAT(version.output, StartsWith("zf-optimizer "));
}

}  // namespace
}  // namespace zf
