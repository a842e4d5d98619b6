#include "os/memory_limits.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "base/file_descriptor.hpp"
#include "tree.hpp"

namespace zf {
namespace {

constexpr std::uint64_t kKiB = 1024, kMiB = 1024 * kKiB;

TEST(MemoryLimits, ReadsWhatANodeSays) {
  Tree tree;
  tree.file("/proc/meminfo",
            "MemTotal: 4096 kB\nMemAvailable: 2048 kB\nCommitLimit: 3000 kB\nCommitted_AS: 1000 kB\n"
            "HugePages_Total:       3\nHugepagesize:       2048 kB")
      .file("/proc/sys/vm/overcommit_memory", "2")
      .file("/proc/self/limits", "Max locked memory         65536            65536            bytes")
      .file("/proc/mounts",
            "tmpfs /dev/shm tmpfs rw,size=64m 0 0\ntmpfs /dev/shm tmpfs rw,nosuid,size=512k 0 0");
  const MemoryLimits limits = read_memory_limits(tree.sysroot(), {});
  EXPECT_EQ(limits.total, 4096 * kKiB);
  EXPECT_EQ(limits.available, 2048 * kKiB);
  EXPECT_EQ(limits.commit_left, 2000 * kKiB);
  EXPECT_EQ(limits.huge_pages, 6 * kMiB);
  EXPECT_EQ(limits.locked_memory, 65536U);
  EXPECT_EQ(limits.shared_memory, 512 * kKiB) << "the last mount lies over the first";
  EXPECT_EQ(limits.cgroup_used, std::nullopt);
}

TEST(MemoryLimits, WhatIsMissingIsAbsent) {
  const MemoryLimits limits = read_memory_limits(Tree().sysroot(), {});
  EXPECT_EQ(limits.total, std::nullopt);
  EXPECT_EQ(limits.commit_left, std::nullopt);
  EXPECT_EQ(limits.shared_memory, std::nullopt);
  EXPECT_FALSE(limits.shared_memory_is_missing);
}

TEST(MemoryLimits, OvercommittingLimitsNothingUnlessItIsOff) {
  Tree tree;
  tree.file("/proc/meminfo", "CommitLimit: 3000 kB\nCommitted_AS: 1000 kB");
  EXPECT_EQ(read_memory_limits(tree.sysroot(), {}).commit_left, std::nullopt);
  tree.file("/proc/sys/vm/overcommit_memory", "1");
  EXPECT_EQ(read_memory_limits(tree.sysroot(), {}).commit_left, std::nullopt);
}

TEST(MemoryLimits, SharedMemoryIsHalfOfTheMemoryUnlessItsMountSaysMore) {
  Tree tree;
  tree.file("/proc/meminfo", "MemTotal: 4096 kB").file("/proc/mounts", "tmpfs /dev/shm tmpfs rw 0 0");
  EXPECT_EQ(read_memory_limits(tree.sysroot(), {}).shared_memory, 2048 * kKiB);
  tree.file("/proc/mounts", "proc /proc proc rw 0 0");
  EXPECT_TRUE(read_memory_limits(tree.sysroot(), {}).shared_memory_is_missing);
}

TEST(MemoryLimits, TheSharedMemoryOfThisMachineIsWhatIsFreeInIt) {
  struct statvfs shared = {};
  std::string path = "/dev/shm/zf-memory-limits-XXXXXX";
  const FileDescriptor file{mkostemp(path.data(), O_CLOEXEC)};
  if (file.get() < 0 || statvfs("/dev/shm", &shared) != 0 || shared.f_blocks == 0)
    GTEST_SKIP() << "no /dev/shm with a size here";
  unlink(path.c_str());
  constexpr off_t kSize = 4 << 20;
  if (posix_fallocate(file.get(), 0, kSize) != 0) GTEST_SKIP() << "/dev/shm is full";
  const std::uint64_t size = std::uint64_t{shared.f_blocks} * shared.f_frsize;
  EXPECT_LE(read_memory_limits(SysRoot(), {}).shared_memory.value(), size - kSize);
}

TEST(MemoryLimits, WhatTheGroupUsesAlreadyIsThatOfTheGroupWithTheLimit) {
  Tree tree;
  tree.file("/sys/fs/cgroup/job/memory.stat", "anon 1000\nfile 500\nshmem 24")
      .file("/sys/fs/cgroup/memory/job/memory.stat", "rss 1\nshmem 2\ntotal_rss 300\ntotal_shmem 4");
  Allowed allowed;
  allowed.memory_path = "/sys/fs/cgroup/job/memory.max";
  EXPECT_EQ(read_memory_limits(tree.sysroot(), allowed).cgroup_used, 1024U);
  allowed.memory_path = "/sys/fs/cgroup/memory/job/memory.limit_in_bytes";
  EXPECT_EQ(read_memory_limits(tree.sysroot(), allowed).cgroup_used, 304U);
}

}  // namespace
}  // namespace zf
