#include "os/affinity.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <thread>

#include "base/cpu_list.hpp"
#include "base/error.hpp"

namespace zf {
namespace {

/// Runs in a thread of its own, so that it may change the mask.
template <class Body>
void aside(Body body) {
  std::thread(body).join();
}

TEST(Affinity, BoundToEachCpuInTurn) {
  aside([] {
    const CpuSet all = thread_affinity();
    ASSERT_FALSE(all.empty());
    for (const Pu pu : all) {
      bind_this_thread({pu});
      EXPECT_EQ(thread_affinity(), CpuSet{pu});
      EXPECT_EQ(sched_getcpu(), pu.os_index);
    }
    bind_this_thread(all);
    EXPECT_EQ(thread_affinity(), all);
  });
}

TEST(Affinity, OtherThreadsKeepTheirs) {
  const CpuSet before = thread_affinity();
  aside([&] { bind_this_thread({before.first()}); });
  EXPECT_EQ(thread_affinity(), before);
}

TEST(Affinity, TheWidestMaskHoldsWhateverAThreadWasBoundTo) {
  const CpuSet before = thread_affinity();
  aside([&] {
    bind_this_thread({before.first()});
    const auto widest = widest_thread_affinity();
    if (!widest) GTEST_SKIP() << "masks cannot be set here";
    EXPECT_TRUE(widest->contains(before));
    EXPECT_EQ(thread_affinity(), *widest);
  });
}

TEST(Affinity, AThreadThatHasEndedHasNone) {
  pid_t tid = 0;
  aside([&] { tid = gettid(); });
  // The kernel takes it apart a moment after the join.
  for (int i = 0; i < 1000 && find_thread_affinity(tid); ++i) usleep(1000);
  EXPECT_EQ(find_thread_affinity(tid), std::nullopt);
  EXPECT_EQ(set_thread_affinity(tid, thread_affinity()), std::nullopt);
}

TEST(Affinity, CpusThatTheKernelTrimsAreNamed) {
  aside([] {
    const CpuSet all = thread_affinity();
    CpuSet more = all;
    more.insert(Pu{8000});  // past the fixed cpu_set_t as well
    try {
      bind_this_thread(more);
      FAIL() << "bound to CPU 8000";
    } catch (const Error& error) {
      EXPECT_EQ(error.exit(), Exit::runtime_error);
      EXPECT_THAT(error.what(), testing::HasSubstr("left out 8000"));
    }
  });
}

TEST(Affinity, NoCpuInCommonIsRefused) {
  aside([] {
    const CpuSet before = thread_affinity();
    EXPECT_THROW(bind_this_thread({Pu{8000}}), Error);
    EXPECT_EQ(thread_affinity(), before);
  });
}

TEST(Affinity, NoSuchThread) { EXPECT_THROW(thread_affinity(0x3ffffff), Error); }

}  // namespace
}  // namespace zf
