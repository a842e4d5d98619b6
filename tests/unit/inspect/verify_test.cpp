#include "inspect/verify.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../plan/make_plan.hpp"
#include "base/error.hpp"

namespace zf {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

JobProcess process_of(Side side, int rank, const std::vector<const char*>& threads) {
  JobProcess member;
  member.side = side;
  member.rank = rank;
  member.process.pid = 100;
  member.process.name = side == Side::optimizer ? "zf-optimizer" : "python3";
  for (const char* cpus : threads) {
    member.process.threads.push_back({100 + static_cast<int>(member.process.threads.size()), "thread",
                                      parse_cpu_list(cpus, "test"), Pu{0}, 0});
  }
  return member;
}

TEST(Verify, ThreadsOnTheirSidesCpusAreAsPlanned) {
  const std::vector<JobProcess> job{
      process_of(Side::trainer, 0, {"0,4-11,21-22", "5"}),
      process_of(Side::optimizer, 0, {"23", "24", "25", "26", "30", "23-26,30"}),
      process_of(Side::trainer, 1, {"31-41"})};
  EXPECT_THAT(drift_of(make_plan(), job), IsEmpty());
  EXPECT_THAT(verification_text(job, {}), HasSubstr("all as planned"));
}

TEST(Verify, AThreadOfOneRankOnAnothersCpus) {
  const auto drifts = drift_of(make_plan(), {process_of(Side::trainer, 1, {"31-41", "30-41"})});
  EXPECT_THAT(drifts, ElementsAre(AllOf(Field(&Drift::tid, 101), Field(&Drift::rank, 1),
                                        Field(&Drift::what, "may run on 30-41, outside 31-41"))));
}

TEST(Verify, APoolThatIsNotPinned) {
  const auto drifts = drift_of(make_plan(), {process_of(Side::optimizer, 0, {"23", "24", "23-26,30"})});
  EXPECT_THAT(drifts, ElementsAre(AllOf(Field(&Drift::tid, 0),
                                        Field(&Drift::what, "has no thread of its own on 25-26,30"))));
}

TEST(Verify, MemoryOnOtherNodes) {
  JobProcess member = process_of(Side::trainer, 1, {"31-41"});
  member.memory = MemoryByNode{{Node{0}, kGiB}, {Node{1}, 3 * kGiB}};
  EXPECT_THAT(drift_of(make_plan(), {member}),
              ElementsAre(Field(&Drift::what, "has 1 GiB of its 4 GiB on node 0, outside node 1")));
  member.memory = MemoryByNode{{Node{0}, kGiB / 1024}, {Node{1}, kGiB / 1024}};
  EXPECT_THAT(drift_of(make_plan(), {member}), IsEmpty()) << "a few pages";
  member.memory = MemoryByNode{{Node{0}, kGiB / 32}, {Node{1}, 64 * kGiB}};
  EXPECT_THAT(drift_of(make_plan(), {member}), IsEmpty()) << "a small part";
}

TEST(Verify, ARankThatThePlanLacks) {
  EXPECT_THROW(drift_of(make_plan(), {process_of(Side::trainer, 2, {"0"})}), Error);
}

TEST(NumaMaps, CountsWhatIsTheProcessesOwnInItsPageSize) {
  const auto memory = memory_of_numa_maps(
      "5581e000 prefer:1 file=/usr/bin/python3.11 mapped=500 N0=500 kernelpagesize_kB=4\n"
      "5591e000 prefer:1 file=/usr/bin/python3.11 anon=3 dirty=3 N1=3 kernelpagesize_kB=4\n"
      "7f000000 prefer:1 anon=5 dirty=5 active=0 N0=2 N1=3 kernelpagesize_kB=2048\n"
      "7f100000 bind:1 file=/memfd:zf-arena\\040(deleted) dirty=9 N1=9 kernelpagesize_kB=4\n"
      "7f200000 default stack anon=1 dirty=1 N8=1 kernelpagesize_kB=64\n"
      "7f300000 default\n"
      "broken N N= N1 N1=x Nx=1 =\n");
  EXPECT_THAT(memory, ElementsAre(testing::Pair(Node{0}, 2 * 2048U << 10),
                                  testing::Pair(Node{1}, (12 * 4U + 3 * 2048) << 10),
                                  testing::Pair(Node{8}, 64U << 10)));
  EXPECT_THAT(memory_of_numa_maps(""), IsEmpty());
}

}  // namespace
}  // namespace zf
