#include "os/memory.hpp"

#include <gtest/gtest.h>
#include <numaif.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <thread>

#include "os/allowed.hpp"
#include "refuse_call.hpp"

namespace zf {
namespace {

class Mapping {
 public:
  explicit Mapping(std::size_t bytes)
      : bytes_(bytes),
        start_(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {}
  ~Mapping() { munmap(start_, bytes_); }
  void* start() const { return start_; }

 private:
  std::size_t bytes_;
  void* start_;
};

int policy_of_this_thread() {
  int mode = -1;
  get_mempolicy(&mode, nullptr, 0, nullptr, 0);
  return mode;
}

std::size_t page() { return static_cast<std::size_t>(sysconf(_SC_PAGESIZE)); }

class Memory : public testing::Test {
 protected:
  void SetUp() override {
    mems_ = read_allowed(SysRoot()).mems;
    if (mems_.empty()) GTEST_SKIP() << "this kernel knows no NUMA nodes";
    if (get_mempolicy(nullptr, nullptr, 0, nullptr, 0) != 0)
      GTEST_SKIP() << "memory policies are refused here";
  }
  NodeSet mems_;
};

TEST_F(Memory, ThreadPolicyIsSetAndTakenBack) {
  std::thread([&] {
    ASSERT_EQ(set_thread_memory_policy(MemoryPolicy::bind, {mems_.first()}), std::nullopt);
    EXPECT_EQ(policy_of_this_thread(), MPOL_BIND);
    ASSERT_EQ(set_thread_memory_policy(MemoryPolicy::preferred, {mems_.first()}), std::nullopt);
    EXPECT_EQ(policy_of_this_thread(), MPOL_PREFERRED);
    ASSERT_EQ(set_thread_memory_policy(MemoryPolicy::preferred, {}), std::nullopt);
    EXPECT_EQ(policy_of_this_thread(), MPOL_DEFAULT);
    ASSERT_EQ(set_thread_memory_policy(MemoryPolicy::preferred, {mems_.first()}), std::nullopt);
    ASSERT_EQ(set_thread_memory_policy(MemoryPolicy::none, mems_), std::nullopt);
    EXPECT_EQ(policy_of_this_thread(), MPOL_DEFAULT);
  }).join();
}

TEST_F(Memory, PolicyOfOthersIsReadWithItsNodes) {
  const NodeSet last{mems_.last()};
  std::thread([&] {
    ASSERT_EQ(set_thread_memory_policy(MemoryPolicy::none, {}), std::nullopt);
    EXPECT_EQ(thread_memory_policy(), std::nullopt) << "the system's default";
    ASSERT_EQ(set_thread_memory_policy(MemoryPolicy::preferred, last), std::nullopt);
    EXPECT_EQ(thread_memory_policy(), (ThreadPolicy{GivenPolicy::preferred, last}));
    ASSERT_EQ(set_thread_memory_policy(MemoryPolicy::bind, mems_), std::nullopt);
    EXPECT_EQ(thread_memory_policy(), (ThreadPolicy{GivenPolicy::bind, mems_}));
    const unsigned long word = 1;  // the first node that is allowed, whatever its number is
    ASSERT_EQ(set_mempolicy(MPOL_INTERLEAVE | 1 << 14, &word, 2), 0);
    EXPECT_EQ(thread_memory_policy(), (ThreadPolicy{GivenPolicy::interleave, {mems_.first()}}));
    ASSERT_EQ(set_mempolicy(MPOL_PREFERRED, nullptr, 0), 0);
    EXPECT_EQ(thread_memory_policy(), ThreadPolicy{});
  }).join();
}

TEST_F(Memory, PolicyThatTheKernelDoesNotTellIsNone) {
  const pid_t child = fork();
  ASSERT_NE(child, -1);
  if (child == 0) {
    if (set_thread_memory_policy(MemoryPolicy::bind, mems_)) _exit(1);
    refuse_call(SYS_get_mempolicy, EPERM);
    _exit(thread_memory_policy() ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == kNoFilters) GTEST_SKIP() << "seccomp filters are not to be had here";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST_F(Memory, HighestNodeOfTheMaskCounts) {
  // The kernel reads one bit fewer than it is told. With a mask that is one bit short, the set would be
  // empty: EINVAL.
  std::thread([&] {
    EXPECT_EQ(set_thread_memory_policy(MemoryPolicy::bind, {mems_.last()}), std::nullopt);
  }).join();
}

TEST_F(Memory, NodesThatDoNotExistAreRefusedInWords) {
  std::thread([&] {
    for (const int node : {63, 64, 900, 65535}) {
      if (mems_.contains(Node{node})) continue;
      const auto refusal = set_thread_memory_policy(MemoryPolicy::bind, {Node{node}});
      ASSERT_TRUE(refusal) << node;
      EXPECT_NE(refusal->find(std::to_string(node)), std::string::npos) << *refusal;
    }
  }).join();
}

TEST_F(Memory, SeveralPreferredNodesWork) {
  NodeSet nodes = mems_;
  nodes.insert(
      Node{mems_.last().os_index + 1});  // does not exist: the kernel drops it, or knows one node only
  std::thread([&] {
    EXPECT_EQ(set_thread_memory_policy(MemoryPolicy::preferred, nodes), std::nullopt);
    EXPECT_NE(policy_of_this_thread(), MPOL_DEFAULT);
  }).join();
}

TEST_F(Memory, TouchedPagesAreCountedOnTheirNode) {
  const std::size_t pages = 20000;  // more than one call's worth
  const Mapping mapping(pages * page());
  ASSERT_EQ(set_range_memory_policy(MemoryPolicy::bind, {mems_.first()}, mapping.start(), pages * page()),
            std::nullopt);
  madvise(mapping.start(), pages * page(), MADV_NOHUGEPAGE);  // a huge page would bring its neighbours in
  const std::size_t touched = 17000;
  std::memset(mapping.start(), 1, touched * page());

  const PageCounts counts = count_pages(mapping.start(), pages * page());
  if (counts.refusal) GTEST_SKIP() << *counts.refusal;
  EXPECT_EQ(counts.absent, pages - touched);
  ASSERT_EQ(counts.by_node.size(), 1u);
  EXPECT_EQ(counts.by_node.begin()->first, mems_.first());
  EXPECT_EQ(counts.by_node.begin()->second, touched);
}

TEST_F(Memory, PartOfAPageIsAPage) {
  const Mapping mapping(2 * page());
  std::memset(mapping.start(), 1, 2 * page());
  const PageCounts counts = count_pages(static_cast<char*>(mapping.start()) + page() - 1, 2);
  if (counts.refusal) GTEST_SKIP() << *counts.refusal;
  ASSERT_EQ(counts.by_node.size(), 1u);
  EXPECT_EQ(counts.by_node.begin()->second, 2u);
}

}  // namespace
}  // namespace zf
